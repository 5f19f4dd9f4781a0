#include "engine/shared_products.h"
#include "util/num.h"
#include <string.h>

enum { ALIGNMENT = 64 }; /* bytes */

/* What the ranks agree on before they prepare their parts. */
struct prepared {
    int terms;
    bool alike; /* on every node all ranks lay the weights out in the same way */
};

/* Largest of all ranks: the digest's bits and their complement differ from this rank's own if
 * another rank of its node has another digest. */
static enum status compare(const struct visit_group *g, const struct product_weights *w, int terms,
                           struct prepared *out, struct err *e)
{
    const int64_t digest = (int64_t)(product_weights_digest(w) >> 1);
    int64_t ends[3] = {digest, -digest, terms};
    if (g->node_size > 1)
        NEED(MPI_Allreduce(MPI_IN_PLACE, ends, 3, MPI_INT64_T, MPI_MAX, g->node) == MPI_SUCCESS,
             ERR_MPI, "MPI_Allreduce failed");
    out->terms = (int)ends[2];
    out->alike = group_max(g, ends[0] != -ends[1]) == 0;
    return OK;
}

/* Makes the memory large enough; node-shared memory need not begin at a multiple of ALIGNMENT, but
 * is as far from one on all ranks. */
static enum status reserve(const struct visit_group *g, int64_t bytes, struct shared_products *p,
                           struct err *e)
{
    const int64_t floats = (bytes + ALIGNMENT) / (int64_t)sizeof(float);
    if (group_max(g, floats > p->floats) == 0) return OK;
    group_memory_close(&p->memory);
    p->floats = 0;
    PASS(group_memory_open(g, floats, "prepared weights", &p->memory, e));
    p->floats = floats;
    return OK;
}

static void *storage_of(const struct shared_products *p)
{
    const uintptr_t at = (uintptr_t)p->memory.at;
    return (void *)((at + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
}

enum status shared_products_make(const struct visit_group *g, const struct model *m,
                                 const float *weights, int64_t rows, int64_t cols,
                                 struct shared_products *p, struct err *e)
{
    struct prepared all = {0};
    const struct product_part part = {g->node_rank, g->node_size};
    product_weights_free(p->w);
    p->w = NULL;
    if (!p->grids && !model_prepares(m)) return OK;
    PASS(group_agree(g, model_prepare_begin(m, p->grids, rows, cols, &p->w, e), e));
    PASS(compare(g, p->w, product_weights_terms_of(p->w, weights, part), &all, e));
    if (!all.alike) return group_agree(g, product_weights_fill_own(p->w, weights, all.terms, e), e);
    PASS(reserve(g, product_weights_size(p->w, all.terms), p, e));
    enum status st = product_weights_fill(p->w, weights, all.terms, storage_of(p), part, e);
    group_memory_sync(g, &p->memory);
    return group_agree(g, st, e);
}

void shared_products_close(struct shared_products *p)
{
    product_weights_free(p->w);
    group_memory_close(&p->memory);
    memset(p, 0, sizeof *p);
}

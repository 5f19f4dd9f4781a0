/* The weights outside the blocks, the embedding and its adjoint. */
#include "curvature/hvp_internal.h"
#include "math/row.h"
#include "util/mem.h"
#include "util/num.h"

enum status hvp_outer_load(const struct hvp *h, struct hvp_outer_weights *w, struct err *e)
{
    struct slot slots[SLOTS_MAX];
    struct hvp_outer along;
    int n = slots_of(&h->m->spec, -1, slots);
    memset(w, 0, sizeof *w);
    hvp_params_outer(h, h->direction, &along);
    for (int i = 0; i < n; i++) {
        int at = slots[i].index;
        int64_t elements = slot_elements(&slots[i]);
        const float *from = h->m->outer[at];
        /* In f32 the model's weights can be used unless a direction moves them. */
        w->at.p[at] = (real *)(uintptr_t)from;
        if (!along.p[at] && sizeof(real) == sizeof *from) continue;
        PASS(mem_alloc(&w->owned[at], elements, sizeof(real), "weights outside the blocks", e));
        w->at.p[at] = w->owned[at];
#pragma omp parallel for schedule(static)
        for (int64_t k = 0; k < elements; k++) w->owned[at][k] = from[k];
        if (along.p[at]) row_axpy(w->owned[at], h->step, along.p[at], elements);
    }
    if (h->m->spec.shape.tied) w->at.p[OUTER_HEAD] = w->at.p[OUTER_EMBED];
    return OK;
}

void hvp_outer_free(struct hvp_outer_weights *w)
{
    for (int i = 0; i < OUTER_N; i++) free(w->owned[i]);
    memset(w, 0, sizeof *w);
}

void hvp_embed(const struct hvp *h, const real *table, real *x)
{
    int64_t C = h->m->spec.shape.hidden, T = h->s->offset[h->s->n];
#pragma omp parallel for schedule(static)
    for (int64_t t = 0; t < T; t++)
        if (table)
            memcpy(x + t * C, table + h->s->ids[t] * C, (size_t)C * sizeof *x);
        else
            memset(x + t * C, 0, (size_t)C * sizeof *x);
}

/* A token may occur many times, so threads divide the columns among them: each sum runs over the
 * tokens in order. */
void hvp_embed_back(const struct hvp *h, const real *g, real *table)
{
    enum { COLUMNS = 64 };
    int64_t C = h->m->spec.shape.hidden, T = h->s->offset[h->s->n];
    if (!table) return;
#pragma omp parallel for schedule(static)
    for (int64_t c = 0; c < C; c += COLUMNS)
        for (int64_t t = 0; t < T; t++)
            row_add(table + h->s->ids[t] * C + c, table + h->s->ids[t] * C + c, g + t * C + c,
                    min64(C - c, COLUMNS));
}

/* Collective operations of a measurement: agreement on errors, distributed vectors, files. */
#include "measures/measurement.h"
#include "checkpoint/safetensors_parts.h"
#include "engine/block_reader.h"
#include "util/agree.h"
#include "util/bulk.h"
#include "util/fsx.h"
#include "util/mem.h"
#include "util/num.h"
#include <math.h>
#include <omp.h>

/* This rank's sequences: every size-th one, from number `rank` on. */
static enum status select_sequences(struct measurement *m, struct err *e)
{
    const struct sequences *all = m->sequences;
    int64_t n = 0, tokens = 0;
    for (int64_t i = m->rank; i < all->n; i += m->size, n++)
        tokens += all->offset[i + 1] - all->offset[i];
    PASS(sequences_init(&m->mine, n, tokens, 0, e));
    for (int64_t i = m->rank, k = 0; i < all->n; i += m->size, k++)
        sequences_put(&m->mine, k, all, i, all->offset[i + 1] - all->offset[i]);
    return OK;
}

static enum status open_local(struct measurement *m, enum hvp_subset subset, struct err *e)
{
    PASS(select_sequences(m, e));
    if (m->size > 1)
        PASS(
            mem_alloc(&m->buffer, bulk_sum_buffer(m->size), sizeof *m->buffer, "sums of ranks", e));
    return hvp_open(m->model, &m->mine, subset, &m->h, e);
}

/* --- agreement on errors --- */

static void set_failed(struct measurement *m, const struct err *why)
{
    m->failed = true;
    m->failure = *why;
}

static enum status agree(void *context, enum status st, struct err *e)
{
    struct measurement *m = context;
    struct err why = {0};
    if (m->failed) RAISE(m->failure.code, "%s", m->failure.text);
    if (st != OK && e) why = *e;
    enum status mine = st;
    st = err_agree(m->group->comm, st, &why);
    if (st == OK) return OK;
    why.code = st;
    set_failed(m, &why);
    if (mine != st) {
        err_clear(e);
        st = err_set(e, st, __FILE__, __LINE__, "%s", why.text);
    }
    return st;
}

enum status measurement_end(struct measurement *m, enum status st, struct err *e)
{
    if (!m->failed) return agree(m, st, e);
    /* The error in e may be a consequence of the first failure. */
    err_clear(e);
    return err_set(e, m->failure.code, __FILE__, __LINE__, "%s", m->failure.text);
}

/* --- operations on distributed vectors --- */

/* x (k) = the sums over the ranks, broadcast by rank 0, so that all have the same bits. */
static void sum(void *context, int64_t k, double *x)
{
    struct measurement *m = context;
    struct err e = {0};
    if (agree(m, OK, &e) != OK) {
        for (int64_t i = 0; i < k; i++) x[i] = NAN;
        return;
    }
    enum status st = bulk_sum(m->group->comm, 0, x, k, MPI_DOUBLE, m->buffer, &e);
    if (st == OK) st = bulk_bcast(m->group->comm, 0, x, k * (int64_t)sizeof *x, &e);
    for (int64_t i = 0; st != OK && i < k; i++) x[i] = NAN;
}

/* Overlap of the range [at, at + n) with rank r's part: returns its length; *begin: its start in
 * the range, *local: its start in the part. */
static int64_t piece_of(const struct measurement *m, int r, int64_t at, int64_t n, int64_t *begin,
                        int64_t *local)
{
    const struct space s = space_cut(hvp_n(m->h), r, m->size);
    int64_t end = at + n;
    *local = at;
    space_clip(&s, local, &end);
    *begin = s.first + *local - at;
    return end - *local;
}

static enum status gather(void *context, int64_t at, int64_t n, const float *mine, float *whole,
                          struct err *e)
{
    struct measurement *m = context;
    int64_t begin, local;
    PASS(agree(m, OK, e));
    for (int r = 0; r < m->size; r++) {
        int64_t k = piece_of(m, r, at, n, &begin, &local);
        if (k <= 0) continue;
        if (r == m->rank) memcpy(whole + begin, mine + local, (size_t)k * sizeof *whole);
        PASS(bulk_bcast(m->group->comm, r, whole + begin, k * (int64_t)sizeof *whole, e));
    }
    return OK;
}

static enum status reduce(void *context, int64_t at, int64_t n, float *whole, float *mine,
                          struct err *e)
{
    struct measurement *m = context;
    int64_t begin, local;
    PASS(agree(m, OK, e));
    for (int r = 0; r < m->size; r++) {
        int64_t k = piece_of(m, r, at, n, &begin, &local);
        float *from = whole + begin;
        PASS(bulk_sum(m->group->comm, r, from, max64(k, 0), MPI_FLOAT, m->buffer, e));
        for (int64_t i = 0; r == m->rank && i < k; i++) mine[local + i] += from[i];
    }
    return OK;
}

/* The ranks of a node read a block together. */
static enum status read_block(void *context, int64_t layer, const struct block **out, struct err *e)
{
    struct measurement *m = context;
    PASS(agree(m, OK, e));
    return block_reader_get(m->reader, layer, -1, out, e);
}

static enum status gradient(void *context, float *g, double *loss, struct err *e)
{
    struct measurement *m = context;
    m->share = m->share_gradient;
    return hvp_gradient(m->h, g, loss, e);
}

static enum status apply(void *context, int64_t k, const float *const *x, float *const *y,
                         struct err *e)
{
    struct measurement *m = context;
    PASS(agree(m, OK, e));
    if (m->hooks && m->hooks->should_stop && m->hooks->should_stop(m->hooks->context)) {
        const struct err why = {.code = ERR_STOPPED, .text = "stopped before a product"};
        set_failed(m, &why); /* the same on all ranks */
        RAISE(why.code, "%s", why.text);
    }
    m->share = m->share_product;
    return hvp_apply(m->h, k, x, y, e);
}

/* A share of a gradient or product is done (hvp_watch). */
static void count_work(void *context, double share)
{
    const struct measurement *m = context;
    pace_step(m->pace, share * m->share);
}

/* Of the work of the running part, this many products are ahead. */
static void say_ahead(void *context, int64_t products)
{
    const struct measurement *m = context;
    pace_ahead(m->pace, (double)products * m->share_product);
}

static enum status make_subject(struct measurement *m, struct err *e)
{
    struct subject *s = &m->subject;
    *s = (struct subject){.hessian = {.space = *hvp_space(m->h), .apply = apply, .context = m},
                          .gradient = gradient,
                          .context = m,
                          .n_tensors = hvp_n_tensors(m->h)};
    PASS(mem_alloc(&s->tensors, s->n_tensors, sizeof *s->tensors, "tensors", e));
    for (int64_t i = 0; i < s->n_tensors; i++) s->tensors[i] = *hvp_tensor(m->h, i);
    return OK;
}

enum status measurement_open(struct measurement *m, enum hvp_subset subset, struct err *e)
{
    m->rank = m->group->rank;
    m->size = m->group->size;
    PASS(agree(m, open_local(m, subset, e), e));
    m->tokens = hvp_scored(m->h);
    MPI_Allreduce(MPI_IN_PLACE, &m->tokens, 1, MPI_INT64_T, MPI_SUM, m->group->comm);
    NEED(m->tokens > 0, ERR_USAGE, "curvature: no sequence of its text has two tokens");
    hvp_total(m->h, m->tokens);
    hvp_watch(m->h, count_work, m);
    if (m->size > 1) {
        PASS(block_reader_open(m->group, m->model, false, 0, &m->reader, e));
        struct hvp_share share = {.space = space_cut(hvp_n(m->h), m->rank, m->size),
                                  .gather = gather,
                                  .reduce = reduce,
                                  .block = read_block,
                                  .context = m};
        share.space.sum = sum;
        share.space.context = m;
        hvp_share_over(m->h, &share);
    }
    return agree(m, make_subject(m, e), e);
}

void measurement_close(struct measurement *m)
{
    free(m->subject.tensors);
    hvp_close(m->h);
    block_reader_close(m->reader);
    sequences_free(&m->mine);
    free(m->buffer);
}

enum status measurement_fit(struct measurement *m, const struct measure *part, const void *setup,
                            int64_t variants, int64_t bound, struct memory_fit *out, struct err *e)
{
    const int64_t threads = omp_get_max_threads();
    struct model_sizes sizes;
    model_sizes(m->model, &sizes);
    const struct memory_after after = {.sizes = &sizes,
                                       .threads = threads,
                                       .ranks = m->size,
                                       .products = model_products(m->model),
                                       .node_ranks = m->group->node_size,
                                       .tokens = memory_sequences_of(&m->mine),
                                       .variants = variants,
                                       .base = memory_base_now(&sizes, threads),
                                       .bound = bound,
                                       .spare = memory_usable_now(bound, &sizes, threads)};
    struct err why = {0};
    enum status st = part->memory(setup, &after, true, out, &why);
    int all = out->kept;
    MPI_Allreduce(MPI_IN_PLACE, &all, 1, MPI_INT, MPI_LAND, m->group->comm);
    if (out->kept && !all) st = part->memory(setup, &after, false, out, &why);
    hvp_keep(m->h, all);
    if (st != OK) st = err_set(e, st, __FILE__, __LINE__, "%s", why.text);
    return err_agree(m->group->comm, st, e);
}

void measurement_save_to(struct measurement *m, struct saved *saved)
{
    m->saved = saved;
    saved_agree_by(saved, agree, m);
}

enum status measurement_run(struct measurement *m, const struct curvature_request *request,
                            struct curvature *out, struct err *e)
{
    struct curvature_request own = *request;
    m->subject.hessian.saved = m->saved;
    own.ahead = say_ahead;
    own.ahead_context = m;
    return measurement_end(m, curvature_measure(&m->subject, &own, out, e), e);
}

/* --- vectors as files --- */

enum status measurement_vector_write(struct measurement *m, const char *path, const float *mine,
                                     struct err *e)
{
    enum status st = OK;
    const struct tensor_shape shape = {"vector", DTYPE_F32, 1, {hvp_n(m->h)}};
    CLEANUP(safetensors_out_close_at) struct safetensors_out *o = NULL; /* on rank 0 */
    if (m->rank == 0) st = fsx_make_parent(path, e);
    if (m->rank == 0 && st == OK) st = safetensors_create(path, &shape, 1, &o, e);
    PASS(err_agree(m->group->comm, st, e));
    PASS(safetensors_append_parts(m->group->comm, mine, hvp_space(m->h)->n, o, e));
    if (m->rank == 0) st = safetensors_commit(o, e);
    return err_agree(m->group->comm, st, e);
}

bool measurement_vector_read(struct measurement *m, const char *path, float *mine)
{
    CLEANUP(safetensors_close) struct safetensors s = {.fd = -1};
    const struct space *part = hvp_space(m->h);
    const bool open = safetensors_open(path, &s, NULL) == OK;
    const struct tensor_entry *x = open ? safetensors_find(&s, "vector") : NULL;
    int there = x && x->n_elements == part->total &&
                safetensors_read_range(&s, x, part->first, part->n, mine, NULL) == OK;
    MPI_Allreduce(MPI_IN_PLACE, &there, 1, MPI_INT, MPI_LAND, m->group->comm);
    return there;
}

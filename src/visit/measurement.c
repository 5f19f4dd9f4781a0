/* The curvature of one loss on a group of ranks: data-parallel gradient and products. */
#include "util/agree.h"
#include "util/mem.h"
#include "visit/curvature.h"
#include <stdlib.h>
#include <string.h>

/* Numbers of one message. */
enum { MESSAGE = 1 << 26 };

/* Every size-th sequence, from this rank's first on. */
static enum status deal(struct measurement *m, struct err *e)
{
    enum status st = OK;
    const struct sequences *all = m->sequences;
    int64_t n = 0, tokens = 0;
    for (int64_t i = m->rank; i < all->n; i += m->size, n++)
        tokens += all->offset[i + 1] - all->offset[i];
    TRY(sequences_init(&m->mine, n, tokens, 0, e));
    for (int64_t i = m->rank, k = 0; i < all->n; i += m->size, k++) {
        int64_t length = all->offset[i + 1] - all->offset[i], at = m->mine.offset[k];
        m->mine.offset[k + 1] = at + length;
        memcpy(m->mine.ids + at, all->ids + all->offset[i], (size_t)length * sizeof *all->ids);
    }
done:
    return st;
}

static enum status open_own(struct measurement *m, enum hvp_subset subset, struct err *e)
{
    enum status st = OK;
    TRY(deal(m, e));
    TRY(hvp_open(m->model, &m->mine, subset, &m->h, e));
    TRY(subject_of_hvp(m->h, &m->own, e));
done:
    return st;
}

/* Where the ranks meet. One that fails by itself meets the others at the end of measurement_run;
 * they learn of it at their next meeting and do not come there any more. */
static enum status meet(struct measurement *m, enum status st, struct err *e)
{
    st = err_agree(m->group, st, e);
    m->left = st != OK;
    return st;
}

/* x (n) = the sum over the ranks, the same bits on all: rank 0 has it made and gives it out. */
static void sum(const struct measurement *m, int64_t n, float *x)
{
    for (int64_t i = 0; m->size > 1 && i < n; i += MESSAGE) {
        int k = (int)(n - i < MESSAGE ? n - i : MESSAGE);
        MPI_Reduce(m->rank ? x + i : MPI_IN_PLACE, x + i, k, MPI_FLOAT, MPI_SUM, 0, m->group);
        MPI_Bcast(x + i, k, MPI_FLOAT, 0, m->group);
    }
}

void measurement_give_out(const struct measurement *m, float *x)
{
    int64_t n = m->subject.hessian.n;
    for (int64_t i = 0; m->size > 1 && i < n; i += MESSAGE)
        MPI_Bcast(x + i, (int)(n - i < MESSAGE ? n - i : MESSAGE), MPI_FLOAT, 0, m->group);
}

static enum status gradient(void *context, float *g, double *loss, struct err *e)
{
    enum status st = OK;
    struct measurement *m = context;
    TRY(meet(m, OK, e));
    TRY(meet(m, m->own.gradient(m->own.context, g, loss, e), e));
    if (m->size > 1) {
        double part = *loss;
        MPI_Reduce(&part, loss, 1, MPI_DOUBLE, MPI_SUM, 0, m->group);
        MPI_Bcast(loss, 1, MPI_DOUBLE, 0, m->group);
    }
    sum(m, m->own.hessian.n, g);
done:
    return st;
}

static enum status apply(void *context, int64_t k, const float *const *x, float *const *y,
                         struct err *e)
{
    enum status st = OK;
    struct measurement *m = context;
    TRY(meet(m, OK, e));
    if (m->hooks->should_stop && m->hooks->should_stop(m->hooks->context)) {
        m->left = true;
        FAIL(ERR_STOPPED, "stopped before a product with the Hessian");
    }
    TRY(meet(m, m->own.hessian.apply(m->own.hessian.context, k, x, y, e), e));
    for (int64_t i = 0; i < k; i++) sum(m, m->own.hessian.n, y[i]);
done:
    return st;
}

enum status measurement_open(struct measurement *m, enum hvp_subset subset, struct err *e)
{
    enum status st = OK;
    MPI_Comm_rank(m->group, &m->rank);
    MPI_Comm_size(m->group, &m->size);
    TRY(meet(m, open_own(m, subset, e), e));
    m->tokens = hvp_scored(m->h);
    MPI_Allreduce(MPI_IN_PLACE, &m->tokens, 1, MPI_INT64_T, MPI_SUM, m->group);
    ENSURE(m->tokens > 0, ERR_USAGE, "curvature: no sequence of its text has two tokens");
    hvp_total(m->h, m->tokens);
    m->subject = m->own;
    m->subject.hessian.apply = apply;
    m->subject.gradient = gradient;
    m->subject.hessian.context = m->subject.context = m;
done:
    return st;
}

void measurement_close(struct measurement *m)
{
    subject_free(&m->own);
    hvp_close(m->h);
    sequences_free(&m->mine);
}

enum status measurement_run(struct measurement *m, const struct curvature_request *request,
                            struct curvature *out, struct err *e)
{
    enum status st = curvature_measure(&m->subject, request, out, e);
    return m->left ? st : meet(m, st, e);
}

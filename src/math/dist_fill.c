/* Fills the lower triangle from the upper one: element (i, j) is the sum of the two channels that
 * the requested order puts at i and j, wherever that sum is stored. Sender and receiver read
 * a panel of columns in the same order, row by row, so that no indices are sent. */
#include "math/dist_internal.h"
#include "util/agree.h"
#include "util/mem.h"
#include "util/num.h"

enum { STRIP = 64 };

/* Who holds index i as a row and as a column of the grid, and its local row and column there. */
struct place {
    int32_t row_proc, col_proc, row, col;
};

struct transfer {
    const struct dist *d;
    int64_t begin, end;  /* columns of the strip */
    int64_t *at;         // (n) index i of the layout is filled from index at[i] of the sums
    struct place *to;    // (n) of index i
    struct place *from;  // (n) of index at[i]
    int *packed, *taken; // (ranks) numbers packed and unpacked so far
};

static struct place place_of(const struct dist *d, int64_t i)
{
    return (struct place){(int32_t)cyclic_owner(&d->rows, i), (int32_t)cyclic_owner(&d->cols, i),
                          (int32_t)cyclic_local(&d->rows, i), (int32_t)cyclic_local(&d->cols, i)};
}

static enum status transfer_make(struct transfer *w, const struct dist *d, const int64_t *order,
                                 struct err *e)
{
    int64_t n = d->n;
    w->d = d;
    PASS(mem_alloc(&w->at, n, sizeof *w->at, "the order of columns", e));
    PASS(mem_alloc(&w->to, n, sizeof *w->to, "places of columns", e));
    PASS(mem_alloc(&w->from, n, sizeof *w->from, "places of columns", e));
    PASS(mem_zero(&w->packed, 2 * (int64_t)d->ranks, sizeof *w->packed, "counts of ranks", e));
    w->taken = w->packed + d->ranks;
    for (int64_t i = 0; i < n; i++) {
        w->at[i] = order ? n - 1 - order[n - 1 - i] : i;
        w->to[i] = place_of(d, i);
        w->from[i] = place_of(d, w->at[i]);
    }
    return OK;
}

static void streams_free(struct transfer *w)
{
    free(w->at);
    free(w->to);
    free(w->from);
    free(w->packed);
}

/* End of the strip's columns that lie below the diagonal in row i. */
static int64_t row_end(const struct transfer *w, int64_t i)
{
    return min64(i, w->end);
}

/* The sums for row i that this rank holds: counts them by receiving rank, or packs them. */
static void row_send(struct transfer *w, int64_t i, struct exchange *x, bool pack)
{
    const struct dist *d = w->d;
    int32_t row = (int32_t)d->row, col = (int32_t)d->col, cols = (int32_t)d->cols.procs;
    const struct place *fi = &w->from[i];
    bool as_row = fi->row_proc == row, as_col = fi->col_proc == col;
    if (!as_row && !as_col) return;
    int32_t base = w->to[i].row_proc * cols;
    for (int64_t j = w->begin, end = row_end(w, i); j < end; j++) {
        const struct place *fj = &w->from[j];
        bool above = w->at[i] < w->at[j]; /* the sum is stored in row at[i] */
        if (above ? !as_row || fj->col_proc != col : !as_col || fj->row_proc != row) continue;
        int32_t to = base + w->to[j].col_proc;
        if (!pack)
            x->send_n[to]++;
        else
            x->send[x->send_at[to] + w->packed[to]++] =
                above ? d->a[fj->col * d->lda + fi->row] : d->a[fi->col * d->lda + fj->row];
    }
}

/* The same on the receiving side, for a row i that this rank holds. */
static void row_receive(struct transfer *w, int64_t i, double scale, struct exchange *x,
                        bool unpack)
{
    const struct dist *d = w->d;
    int32_t col = (int32_t)d->col, cols = (int32_t)d->cols.procs;
    const struct place *fi = &w->from[i];
    double *to = d->a + w->to[i].row;
    for (int64_t j = w->begin, end = row_end(w, i); j < end; j++) {
        if (w->to[j].col_proc != col) continue;
        const struct place *fj = &w->from[j];
        bool above = w->at[i] < w->at[j];
        int32_t rank =
            above ? fi->row_proc * cols + fj->col_proc : fj->row_proc * cols + fi->col_proc;
        if (!unpack)
            x->recv_n[rank]++;
        else
            to[w->to[j].col * d->lda] =
                (double)(float)(scale * x->recv[x->recv_at[rank] + w->taken[rank]++]);
    }
}

static enum status strip_pack(struct transfer *w, struct exchange *x, struct err *e)
{
    const struct dist *d = w->d;
    for (int r = 0; r < d->ranks; r++) x->send_n[r] = x->recv_n[r] = w->packed[r] = w->taken[r] = 0;
    for (int64_t i = w->begin + 1; i < d->n; i++) {
        row_send(w, i, x, false);
        if (w->to[i].row_proc == d->row) row_receive(w, i, 0, x, false);
    }
    PASS(exchange_alloc(x, e));
    for (int64_t i = w->begin + 1; i < d->n; i++) row_send(w, i, x, true);
    return OK;
}

enum status dist_fill(struct dist *d, const int64_t *order, double scale, const double *diagonal,
                      struct err *e)
{
    CLEANUP(streams_free) struct transfer w = {0};
    CLEANUP(exchange_free) struct exchange x = {0};
    enum status st = exchange_init(&x, d->ranks, e);
    if (st == OK) st = transfer_make(&w, d, order, e);
    PASS(err_agree(d->comm, st, e));
    for (w.begin = 0; w.begin < d->n; w.begin = w.end) {
        w.end = min64(w.begin + STRIP, d->n);
        PASS(err_agree(d->comm, strip_pack(&w, &x, e), e));
        PASS(exchange_run(&x, d->comm, e));
        for (int64_t i = w.begin + 1; i < d->n; i++)
            if (w.to[i].row_proc == d->row) row_receive(&w, i, scale, &x, true);
    }
    for (int64_t i = 0; i < d->n; i++)
        if (dist_rank(d, i, i) == d->rank) *dist_at(d, i, i) = diagonal[d->n - 1 - i];
    return OK;
}

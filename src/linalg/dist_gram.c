/* Gram sums straight into the layout: each rank sums a panel of rows over its own tokens, the
 * panel's parts go to their owners, and an owner adds them up in the order of the ranks. */
#include "linalg/dist_internal.h"
#include "linalg/linalg.h"
#include "util/agree.h"
#include "util/mem.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Rows [row, end) of the sums' upper triangle. Channels (a, b), a <= b, are element (n-1-b, n-1-a)
 * of the layout: in its upper triangle, columns n-end .. n-row. */
struct panel {
    int64_t row, end;
    double *sums; // (end - row, n - row)
};

/* Elements of the panel that belong to place (r, c) of the grid. */
static int64_t panel_count(const struct dist *d, const struct panel *p, int64_t r, int64_t c)
{
    int64_t total = 0;
    for (int64_t j = d->n - p->end; j < d->n - p->row; j++)
        if (cyclic_owner(&d->cols, j) == c) total += cyclic_count(&d->rows, j + 1, r);
    return total;
}

/* What place (r, c) gets, column by column. */
static void panel_pack(const struct dist *d, const struct panel *p, int64_t r, int64_t c,
                       double *to)
{
    int64_t pitch = d->n - p->row;
    for (int64_t j = d->n - p->end; j < d->n - p->row; j++) {
        if (cyclic_owner(&d->cols, j) != c) continue;
        int64_t rows = cyclic_count(&d->rows, j + 1, r), block = d->rows.block;
        const double *from = p->sums + (d->n - 1 - j - p->row) * pitch;
        for (int64_t l = 0; l < rows; l += block) {
            const double *last = from + d->n - 1 - cyclic_global(&d->rows, l, r) - p->row;
            for (int64_t k = 0; k < min64(block, rows - l); k++) *to++ = last[-k];
        }
    }
}

/* Adds what one rank sent. */
static void panel_add(struct dist *d, const struct panel *p, const double *from)
{
    for (int64_t j = d->n - p->end; j < d->n - p->row; j++) {
        if (cyclic_owner(&d->cols, j) != d->col) continue;
        int64_t rows = cyclic_count(&d->rows, j + 1, d->row);
        double *to = d->a + cyclic_local(&d->cols, j) * d->lda;
        bool own = rows > 0 && cyclic_owner(&d->rows, j) == d->row;
        if (own) d->diagonal[d->n - 1 - j] += from[rows - 1];
        for (int64_t l = 0; l < rows - own; l++) to[l] += from[l];
        from += rows;
    }
}

static enum status panel_pack_all(const struct dist *d, const struct panel *p, struct exchange *x,
                                  struct err *e)
{
    enum status st = OK;
    int64_t own = panel_count(d, p, d->row, d->col);
    for (int r = 0; r < d->ranks; r++) {
        x->send_n[r] = (int)panel_count(d, p, r / d->cols.procs, r % d->cols.procs);
        x->recv_n[r] = (int)own;
    }
    TRY(exchange_room(x, e));
#pragma omp parallel for schedule(dynamic)
    for (int r = 0; r < d->ranks; r++)
        panel_pack(d, p, r / d->cols.procs, r % d->cols.procs, x->send + x->send_at[r]);
done:
    return st;
}

enum status dist_gram_add(struct dist *d, const float *x, const int64_t *offset, int64_t n_seq,
                          const double *bound, struct err *e)
{
    enum status st = OK;
    struct exchange exchange = {0};
    struct panel p = {0};
    int64_t rows = gram_panel_rows(d->n);
    st = exchange_init(&exchange, d->ranks, e);
    if (st == OK)
        st = mem_alloc(&p.sums, min64(rows, d->n) * d->n, sizeof *p.sums, "a panel of sums", e);
    TRY(err_agree(d->comm, st, e));
    for (int64_t row = 0; row < d->n; row += rows) {
        p.row = row;
        p.end = min64(row + rows, d->n);
        st = gram_panel(p.sums, row, x, d->n, offset, n_seq, bound, e);
        if (st == OK) st = panel_pack_all(d, &p, &exchange, e);
        TRY(err_agree(d->comm, st, e));
        TRY(exchange_run(&exchange, d->comm, e));
        for (int r = 0; r < d->ranks; r++) panel_add(d, &p, exchange.recv + exchange.recv_at[r]);
    }
done:
    exchange_free(&exchange);
    free(p.sums);
    return st;
}

static enum status sums_check(const struct dist *d, struct err *e)
{
    enum status st = OK;
    for (int64_t l = 0; l < d->n_cols; l++) {
        int64_t j = cyclic_global(&d->cols, l, d->col), rows = cyclic_count(&d->rows, j, d->row);
        const double *column = d->a + l * d->lda;
        for (int64_t k = 0; k < rows; k++)
            ENSURE(isfinite(column[k]), ERR_NUMERIC,
                   "the Hessian of input channels %lld and %lld is %g: the activations before this "
                   "layer are not finite",
                   (long long)(d->n - 1 - j),
                   (long long)(d->n - 1 - cyclic_global(&d->rows, k, d->row)), column[k]);
    }
    for (int64_t i = 0; i < d->n; i++)
        ENSURE(d->diagonal[i] >= 0 && isfinite(d->diagonal[i]), ERR_NUMERIC,
               "the Hessian's diagonal is %g at input channel %lld: the activations before this "
               "layer are not finite",
               d->diagonal[i], (long long)i);
done:
    return st;
}

enum status dist_diagonal(struct dist *d, double *diagonal, struct err *e)
{
    enum status st = OK;
    TRY(err_agree(d->comm, sums_check(d, e), e));
    /* One owner an element: the sum is a copy. */
    ENSURE(MPI_Allreduce(d->diagonal, diagonal, (int)d->n, MPI_DOUBLE, MPI_SUM, d->comm) ==
               MPI_SUCCESS,
           ERR_MPI, "MPI_Allreduce failed");
done:
    return st;
}

/* Distributed Gram sums, panel by panel: each rank sums a panel of rows over its own tokens and
 * sends every element to the rank that holds it, which adds the ranks' parts in the order of the
 * ranks. A panel is exchanged in pieces, which bounds the receive buffer for large groups. */
#include "math/dist_internal.h"
#include "math/linalg.h"
#include "util/agree.h"
#include "util/mem.h"
#include "util/num.h"
#include <math.h>

/* Rows [row, end) of the upper triangle of the sums. Channels (a, b), a <= b, are element
 * (n-1-b, n-1-a) of the layout: in its upper triangle, columns [n-end, n-row). A rank receives its
 * part of a piece column by column. */
struct panel {
    int64_t row, end;
    double *sums;          // (end - row, n - row)
    int64_t *at;           // (grid rows, end - row) where a column starts in its rank's buffer
    int64_t piece, pieces; /* columns piece, piece + pieces, ... are exchanged together */
};

int64_t dist_pieces(const struct cyclic *rows, const struct cyclic *cols, int64_t width)
{
    int64_t blocks = (width + cols->block - 1) / cols->block, pieces = 1;
    int64_t columns = (blocks + cols->procs - 1) / cols->procs * cols->block;
    int64_t others = rows->procs * cols->procs - 1;
    int64_t arriving = others * min64(columns, width) * cyclic_count(rows, rows->n, 0);
    while (arriving > pieces * width * rows->n && pieces < cols->block) pieces *= 2;
    return pieces;
}

/* Fills at; counts (ranks) = numbers of the current piece that each rank receives. */
static void panel_place(const struct dist *d, struct panel *p, int *counts)
{
    int64_t width = p->end - p->row, first = d->n - p->end;
    memset(counts, 0, (size_t)d->ranks * sizeof *counts);
    for (int64_t r = 0; r < d->rows.procs; r++) {
        int *count = counts + r * d->cols.procs;
        for (int64_t k = p->piece; k < width; k += p->pieces) {
            int64_t c = cyclic_owner(&d->cols, first + k);
            p->at[r * width + k] = count[c];
            count[c] += (int)cyclic_count(&d->rows, first + k + 1, r);
        }
    }
}

/* Column j of the layout as the panel stores it: a row, read backwards from layout row 0 on. */
static const double *panel_column(const struct dist *d, const struct panel *p, int64_t j)
{
    return p->sums + (d->n - 1 - j - p->row) * (d->n - p->row) + d->n - 1 - p->row;
}

static void panel_pack(const struct dist *d, const struct panel *p, const struct exchange *x)
{
    int64_t first = d->n - p->end, width = p->end - p->row;
#pragma omp parallel for schedule(dynamic)
    for (int64_t k = p->piece; k < width; k += p->pieces) {
        const double *column = panel_column(d, p, first + k);
        for (int64_t r = 0; r < d->rows.procs; r++) {
            int64_t rank = r * d->cols.procs + cyclic_owner(&d->cols, first + k);
            int64_t rows = cyclic_count(&d->rows, first + k + 1, r), block = d->rows.block;
            if (rank == d->rank) continue;
            double *to = x->send + x->send_at[rank] + p->at[r * width + k];
            for (int64_t l = 0; l < rows; l += block) {
                const double *from = column - cyclic_global(&d->rows, l, r);
                for (int64_t i = 0; i < min64(block, rows - l); i++) to[l + i] = from[-i];
            }
        }
    }
}

/* Adds this rank's own sums to the n numbers of its column. */
static void column_add_own(const struct dist *d, double *to, const double *column, int64_t n)
{
    int64_t block = d->rows.block;
    for (int64_t l = 0; l < n; l += block) {
        const double *from = column - cyclic_global(&d->rows, l, d->row);
        for (int64_t i = 0; i < min64(block, n - l); i++) to[l + i] += from[-i];
    }
}

/* Adds all ranks' sums, in the order of the ranks. */
static void panel_add(struct dist *d, const struct panel *p, const struct exchange *x)
{
    int64_t first = d->n - p->end, width = p->end - p->row;
#pragma omp parallel for schedule(dynamic)
    for (int64_t k = p->piece; k < width; k += p->pieces) {
        int64_t j = first + k, rows = cyclic_count(&d->rows, j + 1, d->row);
        if (cyclic_owner(&d->cols, j) != d->col || rows == 0) continue;
        const double *column = panel_column(d, p, j);
        double *to = d->a + cyclic_local(&d->cols, j) * d->lda, *diagonal = NULL;
        if (cyclic_owner(&d->rows, j) == d->row) diagonal = &d->diagonal[d->n - 1 - j], rows--;
        for (int r = 0; r < d->ranks; r++) {
            const double *from = x->recv + x->recv_at[r] + p->at[d->row * width + k];
            if (r == d->rank)
                column_add_own(d, to, column, rows);
            else
                for (int64_t l = 0; l < rows; l++) to[l] += from[l];
            if (diagonal) *diagonal += r == d->rank ? column[-j] : from[rows];
        }
    }
}

/* Packs the sums that other ranks hold; this rank's own part is not sent. */
static enum status panel_send(const struct dist *d, struct panel *p, struct exchange *x,
                              struct err *e)
{
    panel_place(d, p, x->send_n);
    for (int r = 0; r < d->ranks; r++) x->recv_n[r] = r == d->rank ? 0 : x->send_n[d->rank];
    x->send_n[d->rank] = 0;
    PASS(exchange_alloc(x, e));
    panel_pack(d, p, x);
    return OK;
}

enum status dist_gram_add(struct dist *d, const float *x, const int64_t *offset, int64_t n_seq,
                          const double *bound, struct err *e)
{
    enum status st = OK;
    struct exchange exchange = {0};
    struct panel p = {0};
    int64_t rows = min64(gram_panel_rows(d->n), d->n);
    st = exchange_init(&exchange, d->ranks, e);
    if (st == OK) st = mem_alloc(&p.sums, rows * d->n, sizeof *p.sums, "a panel of sums", e);
    if (st == OK) st = mem_alloc(&p.at, rows * d->rows.procs, sizeof *p.at, "places in a panel", e);
    TRY(err_agree(d->comm, st, e));
    p.pieces = dist_pieces(&d->rows, &d->cols, rows);
    for (p.row = 0; p.row < d->n; p.row = p.end) {
        p.end = min64(p.row + rows, d->n);
        st = gram_panel(p.sums, p.row, x, d->n, offset, n_seq, bound, e);
        for (p.piece = 0; p.piece < p.pieces; p.piece++) {
            if (st == OK) st = panel_send(d, &p, &exchange, e);
            TRY(err_agree(d->comm, st, e));
            TRY(exchange_run(&exchange, d->comm, e));
            panel_add(d, &p, &exchange);
        }
    }
done:
    exchange_free(&exchange);
    free(p.sums);
    free(p.at);
    return st;
}

static enum status sums_check(const struct dist *d, struct err *e)
{
    for (int64_t l = 0; l < d->n_cols; l++) {
        int64_t j = cyclic_global(&d->cols, l, d->col), rows = cyclic_count(&d->rows, j, d->row);
        const double *column = d->a + l * d->lda;
        for (int64_t k = 0; k < rows; k++)
            NEED(isfinite(column[k]), ERR_NUMERIC,
                 "the Hessian of input channels %lld and %lld is %g: the activations before this "
                 "layer are not finite",
                 (long long)(d->n - 1 - j),
                 (long long)(d->n - 1 - cyclic_global(&d->rows, k, d->row)), column[k]);
    }
    for (int64_t i = 0; i < d->n; i++)
        NEED(d->diagonal[i] >= 0 && isfinite(d->diagonal[i]), ERR_NUMERIC,
             "the Hessian's diagonal is %g at input channel %lld: the activations before this "
             "layer are not finite",
             d->diagonal[i], (long long)i);
    return OK;
}

enum status dist_diagonal(struct dist *d, double *diagonal, struct err *e)
{
    PASS(err_agree(d->comm, sums_check(d, e), e));
    /* Each element is nonzero on one rank only: the sum is a copy. */
    NEED(MPI_Allreduce(d->diagonal, diagonal, (int)d->n, MPI_DOUBLE, MPI_SUM, d->comm) ==
             MPI_SUCCESS,
         ERR_MPI, "MPI_Allreduce failed");
    return OK;
}

/* dist_internal: what the source files of the distributed matrix (dist.h) share. */
#pragma once
#include "math/cyclic.h"
#include "math/dist.h"

struct dist {
    MPI_Comm comm; /* borrowed */
    int rank, ranks;
    int64_t n;
    struct cyclic rows, cols; /* distribution of the rows and columns over the process grid */
    int64_t row, col;         /* this rank's place in the grid: rank = row * cols.procs + col */
    int64_t n_rows, n_cols;   /* of this rank's part */
    int64_t lda;              /* leading dimension: n_rows or slightly more, at least 1 */
    double *a;                // (n_cols, lda) this rank's part, column-major
    double *diagonal;         // (n) by channel: sums of the diagonal elements of this rank, else 0
    int context, handle;      /* of BLACS; -1: none */
};

/* The rank that holds element (i, j) of the layout. */
static inline int dist_rank(const struct dist *d, int64_t i, int64_t j)
{
    return (int)(cyclic_owner(&d->rows, i) * d->cols.procs + cyclic_owner(&d->cols, j));
}

/* Element (i, j) of the layout, which this rank must hold. */
static inline double *dist_at(const struct dist *d, int64_t i, int64_t j)
{
    return d->a + cyclic_local(&d->cols, j) * d->lda + cyclic_local(&d->rows, i);
}

/* --- dist_exchange.c: all-to-all exchanges of doubles ---
 * For each exchange the caller fills send_n and recv_n, calls exchange_alloc, packs `send`, calls
 * exchange_run and unpacks `recv`. Buffers are reused by later exchanges. */
struct exchange {
    int ranks;
    int *send_n, *recv_n;   // (ranks) numbers to and from each rank
    int *send_at, *recv_at; // (ranks) where they start in the buffers
    double *send, *recv;
    int64_t send_capacity, recv_capacity;
};
/* Local. ERR_NOMEM. */
MUST_USE enum status exchange_init(struct exchange *x, int ranks, struct err *e);
void exchange_free(struct exchange *x);
/* Local: computes send_at and recv_at from the counts and enlarges the buffers where needed.
 * ERR_SHAPE: more numbers than MPI's 32-bit counts allow; ERR_NOMEM. */
MUST_USE enum status exchange_alloc(struct exchange *x, struct err *e);
/* Collective on comm. ERR_MPI. */
MUST_USE enum status exchange_run(struct exchange *x, MPI_Comm comm, struct err *e);

/* dist_gram.c, local: into how many pieces the exchange of a panel of Gram sums (`width` columns of
 * the layout) is cut, so that on a grid of up to `width` columns a rank receives at most one
 * panel's worth of numbers at a time. A power of two: it divides the block size evenly. */
int64_t dist_pieces(const struct cyclic *rows, const struct cyclic *cols, int64_t width);

/* dist_fill.c, collective: fills the lower triangle and the diagonal of the layout with the H of
 * dist_factor, whose parameters these are. ERR_NOMEM, ERR_MPI. */
MUST_USE enum status dist_fill(struct dist *d, const int64_t *order, double scale,
                               const double *diagonal, struct err *e);

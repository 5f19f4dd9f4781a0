/* What the files of the distributed matrix share. */
#pragma once
#include "linalg/cyclic.h"
#include "linalg/dist.h"

struct dist {
    MPI_Comm comm;
    int rank, ranks;
    int64_t n;
    struct cyclic rows, cols; /* of the grid */
    int64_t row, col;         /* this rank's place: rank = row * cols.procs + col */
    int64_t n_rows, n_cols;   /* of its part */
    int64_t lda;              /* n_rows or a little more, at least 1 */
    double *a;                // (n_cols, lda): columns are contiguous
    double *diagonal;         // (n) sums by channel of this rank's diagonal elements, else 0
    int context, handle;      /* of BLACS; -1: none */
};

static inline int dist_rank(const struct dist *d, int64_t i, int64_t j)
{
    return (int)(cyclic_owner(&d->rows, i) * d->cols.procs + cyclic_owner(&d->cols, j));
}

/* This rank's element (i, j) of the layout; it must own it. */
static inline double *dist_at(const struct dist *d, int64_t i, int64_t j)
{
    return d->a + cyclic_local(&d->cols, j) * d->lda + cyclic_local(&d->rows, i);
}

/* A step of an all-to-all of doubles: counts and places by rank, and the two buffers. */
struct exchange {
    int ranks;
    int *send_n, *recv_n, *send_at, *recv_at; // (ranks)
    double *send, *recv;
    int64_t send_capacity, recv_capacity;
};
/* Local. */
MUST_USE enum status exchange_init(struct exchange *x, int ranks, struct err *e);
void exchange_free(struct exchange *x);
/* Local: places from the counts, and room. ERR_NOMEM. */
MUST_USE enum status exchange_room(struct exchange *x, struct err *e);
MUST_USE enum status exchange_run(struct exchange *x, MPI_Comm comm, struct err *e);

/* dist_gram.c, local: in how many pieces a panel of Gram sums, `width` columns of the layout, goes
 * over: so many that what arrives at a rank at a time is no more than such a panel, on a grid of up
 * to `width` columns. A power of two, as blocks are, which cuts them evenly. */
int64_t dist_pieces(const struct cyclic *rows, const struct cyclic *cols, int64_t width);

/* dist_fill.c: lower triangle and diagonal of the layout = the H of dist_factor. */
MUST_USE enum status dist_fill(struct dist *d, const int64_t *order, double scale,
                               const double *diagonal, struct err *e);

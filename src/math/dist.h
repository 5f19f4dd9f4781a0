/* dist: a Gram matrix and its Cholesky factor distributed over the ranks of a communicator, in the
 * block-cyclic layout of ScaLAPACK. Only this folder knows that layout and calls Fortran.
 *
 * Indices are reversed: element (i, j) of the layout is channels (n-1-i, n-1-j), so that an
 * ordinary lower Cholesky factor of it is the R of docs/math/gptq.md. The strict upper triangle
 * holds the Gram sums, and no factorisation writes to it; the sums' diagonal is stored separately;
 * the lower triangle is filled from both before each factorisation. So one n x n matrix in total,
 * over all ranks, serves any number of orders and dampings one after the other. No rank holds a
 * whole matrix (docs/decisions/0008-distributed-hessian.md).
 *
 * Unless marked local, every function is collective on the communicator of dist_make: all ranks
 * call it with the same arguments (x and offset excepted), and all return OK or all return an error
 * (util/agree.h). Numbers depend on the number of ranks, the process grid and the block size only.
 */
#pragma once
#include "util/err.h"
#include <mpi.h>
#include <stdbool.h>

struct dist;

/* Rows and columns of the process grid, and side of a block. 0: chosen by dist_make (rows <=
 * columns, as square as possible; blocks of 64, from n = 8192 on of 128). */
struct dist_shape {
    int64_t rows, cols, block;
};

/* A matrix of zeros of order n; free with dist_free. The communicator is borrowed. ERR_USAGE: the
 * grid has not as many places as there are ranks; ERR_SHAPE: a rank's part exceeds the 32-bit
 * indices of ScaLAPACK; ERR_NOMEM. */
MUST_USE enum status dist_make(MPI_Comm comm, int64_t n, struct dist_shape shape, struct dist **out,
                               struct err *e);
/* Collective, because it releases the process grid. NULL: does nothing. */
void dist_free(struct dist *d);
CLEANUP_BY_VALUE(struct dist, dist_free);

/* Local, for plans: bytes, on the rank with the largest part of `ranks` ranks, of the matrix, of
 * the buffers of dist_gram_add and of dist_factor (without a few numbers per channel). */
int64_t dist_bytes(int64_t n, int64_t ranks);
int64_t dist_summing_bytes(int64_t n);
int64_t dist_factor_bytes(int64_t n, int64_t ranks);

/* Adds the sum of x_t x_tᵀ over the rows of all ranks' x (T, n); each rank passes its own x and
 * offset, n_seq may be 0. Parameters as gram_add (linalg.h). ERR_SHAPE, ERR_NOMEM, ERR_MPI. */
MUST_USE enum status dist_gram_add(struct dist *d, const float *x, const int64_t *offset,
                                   int64_t n_seq, const double *bound, struct err *e);

/* diagonal (n) = the diagonal of the sums by channel, on every rank. ERR_NUMERIC: a sum is not
 * finite or negative on the diagonal; the text names its channels. */
MUST_USE enum status dist_diagonal(struct dist *d, double *diagonal, struct err *e);

/* Factors H = R Rᵀ with the channels in the order order[0], ..., order[n - 1] (NULL: unchanged).
 * Off the diagonal H = scale * sums, rounded to f32 as GPTQ's reference implementation does; its
 * diagonal is diagonal (n), in that order. ERR_NUMERIC: not positive definite; the sums are intact
 * for another try. ERR_NOMEM, ERR_MPI. */
MUST_USE enum status dist_factor(struct dist *d, const int64_t *order, double scale,
                                 const double *diagonal, struct err *e);

/* Transfer of columns [begin, end) of R to all ranks: its buffers, and what is under way in them.
 * Zero-initialise; free with dist_panel_free. */
struct dist_panel {
    int64_t begin, end;
    float *before;  // (ranks' parts, columns, rows) rows [0, begin), both in R's order
    double *corner; // (ranks' parts, columns, rows) rows [begin, end), both in the layout's
    int *counts;    // (2, 2, ranks) numbers of each rank's part and where it starts, of both
    MPI_Request request[2];
    bool active; /* started and not finished */
};
/* Allocates buffers for panels of up to `width` columns. ERR_NOMEM. */
MUST_USE enum status dist_panel_make(const struct dist *d, int64_t width, struct dist_panel *p,
                                     struct err *e);
/* Local, for plans: the bytes of that. */
int64_t dist_panel_bytes(int64_t n, int64_t width);
/* Starts the transfer, from the last dist_factor; the one before has finished. ERR_SHAPE, ERR_MPI.
 */
MUST_USE enum status dist_panel_start(const struct dist *d, int64_t begin, int64_t end,
                                      struct dist_panel *p, struct err *e);
/* Local: lets MPI go on with the transfer, beside other work. Main thread. */
void dist_panel_progress(struct dist_panel *p);
/* Waits for the transfer. before (end - begin, begin), f32 = rows [0, begin) of the columns, a
 * column after the other; corner (end - begin, end - begin), f64 = rows [begin, end), zeros below
 * R's diagonal. ERR_MPI. */
MUST_USE enum status dist_panel_finish(const struct dist *d, struct dist_panel *p, float *before,
                                       double *corner, struct err *e);
/* Frees the buffers; waits for a transfer that is still active. */
void dist_panel_free(struct dist_panel *p);

/* dist: a Gram matrix and its Cholesky factor spread over the ranks of a communicator, in the
 * block-cyclic layout of ScaLAPACK. Only this folder knows that layout and Fortran.
 *
 * The matrix stands index-reversed: element (i, j) of the layout is channel (n-1-i, n-1-j), so that
 * an ordinary lower Cholesky of it is the R of docs/math/gptq.md. The strict upper triangle holds
 * the Gram sums and is never written by a factorisation, the diagonal is kept apart, and the lower
 * triangle is filled from them for each try: one n x n in all, over all ranks, serves any number of
 * orders and dampings one after the other. No rank holds a whole matrix.
 *
 * Everything here that is not marked local is collective on the communicator of dist_make: every
 * rank calls with the same arguments, x and offset apart, and every rank leaves with OK, or every
 * rank leaves with an error (util/agree.h). Numbers depend on the number of ranks, the grid and
 * the block size, on nothing else.
 */
#pragma once
#include "util/err.h"
#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

struct dist;

/* Rows and columns of the grid of processes and side of a block; 0: as dist_make sees fit (rows <=
 * columns, near a square; 64, from 8192 on 128). */
struct dist_shape {
    int64_t rows, cols, block;
};

/* n x n of zeros. The communicator is borrowed. ERR_USAGE: the grid has not as many places as there
 * are ranks; ERR_SHAPE: a rank's part is beyond the 32-bit indices of ScaLAPACK; ERR_NOMEM. */
MUST_USE enum status dist_make(MPI_Comm comm, int64_t n, struct dist_shape shape, struct dist **out,
                               struct err *e);
/* Collective, as the grid is given back. NULL does nothing. */
void dist_free(struct dist *d);

/* Local: the shape that was chosen; the greatest number of bytes that dist_make takes on one of
 * `ranks` ranks, and what dist_gram_add and dist_factor take beside them (the latter beside a few
 * numbers a channel). */
struct dist_shape dist_shape(const struct dist *d);
int64_t dist_bytes(int64_t n, int64_t ranks);
int64_t dist_summing_bytes(int64_t n);
int64_t dist_factor_bytes(int64_t n, int64_t ranks);

/* Adds the sum of x_t x_tᵀ over this rank's own rows of x (T, n), sequences as gram_add has them
 * (n_seq may be 0). bound: as gram_add. ERR_NOMEM. */
MUST_USE enum status dist_gram_add(struct dist *d, const float *x, const int64_t *offset,
                                   int64_t n_seq, const double *bound, struct err *e);

/* diagonal (n) of the sums, by channel, on every rank. ERR_NUMERIC names the channels of a sum that
 * is not finite, or of a negative one on the diagonal. */
MUST_USE enum status dist_diagonal(struct dist *d, double *diagonal, struct err *e);

/* Factors H = R Rᵀ, channels in the order order[0..n) (NULL: as they stand). Off the diagonal H =
 * scale * sums, rounded to f32 as GPTQ's reference has it; on it diagonal (n), in that order.
 * ERR_NUMERIC: not positive definite; the sums are still there for another try. */
MUST_USE enum status dist_factor(struct dist *d, const int64_t *order, double scale,
                                 const double *diagonal, struct err *e);

/* Columns [begin, end) of R on their way to every rank. Zero-initialise. */
struct dist_panel {
    int64_t begin, end;
    double *send, *recv;
    int *counts, *offsets; // (ranks)
    MPI_Request request;
    bool active;
};
/* Starts the transfer of a panel of the last factor; ERR_NOMEM. */
MUST_USE enum status dist_panel_start(const struct dist *d, int64_t begin, int64_t end,
                                      struct dist_panel *p, struct err *e);
/* Waits for it: r (end, end - begin) = rows [0, end) of the panel, f32, zeros below the diagonal;
 * corner (end - begin, end - begin) = its last rows in f64. */
MUST_USE enum status dist_panel_finish(const struct dist *d, struct dist_panel *p, float *r,
                                       double *corner, struct err *e);
void dist_panel_free(struct dist_panel *p);

/* For matrices that one rank factors: h (n, n) of rank owner = the sum of the upper triangles of
 * all ranks' h, in the order of the ranks; elsewhere h is left as it is. Collective on comm.
 * ERR_NOMEM, ERR_MPI. */
MUST_USE enum status gram_collect(MPI_Comm comm, int owner, double *h, int64_t n, struct err *e);
/* Bytes that it takes. */
int64_t gram_collect_bytes(int64_t n, int64_t ranks);

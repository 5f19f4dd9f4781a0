/* linalg: dense linear algebra on one process. BLAS runs single-threaded; parallelism is OpenMP
 * around it, over tiles whose shapes depend on the problem alone, so that results do not depend on
 * the number of threads (docs/decisions/0003-numbers-and-threads.md). Only this folder calls BLAS
 * and LAPACK. Nothing here communicates. The caller owns every array; matrices are row-major. */
#pragma once
#include "math/matmul.h"
#include "math/products.h"
#include "util/err.h"
#include <stdbool.h>

/* Sets BLAS to one thread. Call once per process, before any other function here. */
void linalg_setup(void);
/* Makes BLAS allocate the buffers that so many threads need at once, and starts the threads:
 * without enough address space (ulimit -v) OpenBLAS would try again for ever in its first product,
 * and OpenMP would end the process. Does nothing for a number that it has served before. Call
 * before the first product, outside of parallel regions. ERR_NOMEM says what to do. */
MUST_USE enum status linalg_reserve(int threads, struct err *e);
/* Library, version and kernel in use, "OpenBLAS 0.3.21 Haswell", for fingerprints. Static string;
 * thread-safe. */
const char *linalg_blas_name(void);
/* Whether OpenBLAS computes with kernels for CPUs without AVX. */
bool linalg_blas_is_generic(void);
/* An OpenBLAS that is older than the CPU may take such kernels, several times slower, on a CPU with
 * AVX2 or AVX-512: sets OPENBLAS_CORETYPE then, if it is not set. Sets OMP_WAIT_POLICY=passive, if
 * neither it nor GOMP_SPINCOUNT is set: threads that wait sleep, and do not take the cores of other
 * processes. Where it has set one, starts the program again with argv, once. Call first in main,
 * before threads and MPI. */
void linalg_choose_kernels(char **argv);

/* --- Gram matrices of layer inputs, XᵀX --- */

/* Most tokens that are summed in f32 before the sum is added to the f64 total. */
enum { TOKEN_TILE = 256 };

/* Adds the sum of x_t x_tᵀ over the tokens t to the upper triangle of h (n, n), f64; the lower
 * triangle stays untouched. x (T, n), f32: the tokens of n_seq sequences, sequence s being rows
 * offset[s] to offset[s + 1]. Sums run in f32 over tiles of at most TOKEN_TILE tokens of one
 * sequence, and tiles are added in f64 in the order of the tokens. Parallel.
 *
 * bound (n) from gram_bound_make, or NULL. With a bound every tile's sum is rounded to a multiple
 * of 2^-50 bound_i bound_j first, so that all f64 additions are exact: the result is the same bit
 * for bit in whatever order and grouping (sequences, ranges, ranks) the tiles are added.
 *
 * kind: how a tile is summed (products.h; not AUTO). In bf16 terms diagonal blocks are computed
 * whole, of which only the upper triangle is added.
 *
 * ERR_SHAPE: a sequence ends before it starts; ERR_NOMEM. */
MUST_USE enum status gram_add(double *h, const float *x, int64_t n, const int64_t *offset,
                              int64_t n_seq, const double *bound, enum products kind,
                              struct err *e);
/* Adds the sum of y_t x_tᵀ over the tokens to d (n, n), f64, y and x (T, n). Otherwise as gram_add
 * in f32; bound holds for both. */
MUST_USE enum status gram_cross_add(double *d, const float *y, const float *x, int64_t n,
                                    const int64_t *offset, int64_t n_seq, const double *bound,
                                    struct err *e);
/* Bytes of scratch memory that gram_add and, with PRODUCTS_F32, gram_cross_add take on so many
 * threads. */
int64_t gram_bytes(int64_t n, int64_t threads, enum products kind);

/* The same sums for the rows [row, row + gram_panel_rows(n)) alone, `row` a multiple of
 * gram_panel_rows(n). Overwrites panel (rows that exist, n - row): its column j is column row + j
 * of the Gram matrix; entries below the diagonal are 0. Parameters and errors as gram_add
 * in f32. */
MUST_USE enum status gram_panel(double *panel, int64_t row, const float *x, int64_t n,
                                const int64_t *offset, int64_t n_seq, const double *bound,
                                struct err *e);
int64_t gram_panel_rows(int64_t n);

/* Raises maximum (n) to the largest |x| of each channel of x (tokens, n); start with zeros. A NaN
 * stays. Parallel. */
void gram_bound_raise(float *maximum, const float *x, int64_t n, int64_t tokens);
/* bound (n) = for each channel a power of two above sqrt(tokens) maximum, `tokens` being all tokens
 * that will be summed by all ranks: by Cauchy-Schwarz no sum of x_i x_j exceeds bound_i bound_j
 * (docs/decisions/0008-distributed-hessian.md). */
void gram_bound_make(double *bound, const float *maximum, int64_t n, int64_t tokens);

/* --- triangular factors, f64 --- */

/* Factors H = R Rᵀ with R upper triangular and a positive diagonal: a Cholesky factorisation of H
 * with its indices reversed (docs/math/gptq.md). In place: on entry the upper triangle of H in
 * a (n, n), on exit R there and zeros below. Parallel.
 * ERR_NUMERIC: H is not positive definite or not finite, and a is garbage: start again from H with
 * more damping. ERR_NOMEM. */
MUST_USE enum status chol_upper(double *a, int64_t n, struct err *e);

/* a (m, n) = a R⁻¹ or (transposed) a R⁻ᵀ, R = r (n, n) upper triangular. In place, parallel over
 * rows of a. */
void triangular_divide(double *a, int64_t m, const double *r, int64_t n, bool transposed);

/* inv (m, m) = inverse of the upper triangular diagonal block of order m that starts at row and
 * column i0 of a (row pitch lda); zeros below the diagonal. ERR_NUMERIC: singular. */
MUST_USE enum status triangular_inverse(double *inv, const double *a, int64_t lda, int64_t i0,
                                        int64_t m, struct err *e);

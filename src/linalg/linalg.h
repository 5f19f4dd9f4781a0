/* linalg: the dense kernels everything rests on. BLAS runs single-threaded; parallelism is OpenMP
 * around it, over tiles whose shapes depend on the problem alone, so that results do not depend on
 * the number of threads. Only this folder calls BLAS and LAPACK.
 */
#pragma once
#include "util/err.h"
#include <stdint.h>

/* Call once a process: BLAS to one thread. */
void linalg_setup(void);
/* "OpenBLAS 0.3.21 Haswell": library and kernel in use, for fingerprints. Static string. */
const char *linalg_blas_name(void);

/* y (T, n) with row pitch ldy = x (T, k) with pitch ldx times W (n, k)ᵀ; one thread, one sgemm. */
void gemm_nt(float *y, int64_t ldy, const float *x, int64_t ldx, const float *w, int64_t ldw,
             int64_t T, int64_t n, int64_t k);
/* y (T, n) = x (T, k) times B (k, n); beta 0 or 1. */
void gemm_nn(float *y, int64_t ldy, const float *x, int64_t ldx, const float *b, int64_t ldb,
             int64_t T, int64_t n, int64_t k, float beta);
/* y (m, n) = Aᵀ B with A (k, m), B (k, n); beta 0 or 1. */
void gemm_tn(float *y, int64_t ldy, const float *a, int64_t lda, const float *b, int64_t ldb,
             int64_t m, int64_t n, int64_t k, float beta);

enum { TOKEN_TILE = 256 };

/* h (n, n) f64, upper triangle: += sum of x_t x_tᵀ over the rows of x (T, n) f32. Sums in f32 tiles
 * of at most TOKEN_TILE rows, cut at the sequence ends offset[0..n_seq] (relative to x), added into
 * f64 in order. Parallel. */
MUST_USE enum status gram_add(double *h, const float *x, int64_t n, const int64_t *offset,
                              int64_t n_seq, struct err *e);
/* Bytes that gram_add takes while it runs. */
int64_t gram_bytes(int64_t n, int64_t threads);

/* The same with sums that are equal bit for bit in whatever order and grouping they are made: by
 * sequence, range or rank. bound (n) from gram_bound_make over all tokens of all calls; NULL: as
 * gram_add. What it costs in precision is 2^-50 bound_i bound_j an addition. */
MUST_USE enum status gram_add_exact(double *h, const float *x, int64_t n, const int64_t *offset,
                                    int64_t n_seq, const double *bound, struct err *e);
/* Rows [row, row + gram_panel_rows(n)) of the upper triangle alone, `row` a multiple of that:
 * panel (rows that exist, n - row) = the sums of columns row.. on; below the diagonal: 0. */
MUST_USE enum status gram_panel(double *panel, int64_t row, const float *x, int64_t n,
                                const int64_t *offset, int64_t n_seq, const double *bound,
                                struct err *e);
int64_t gram_panel_rows(int64_t n);
/* most (n): raised to the greatest |x| of each channel (NaN stays); then bound (n) = a power of two
 * beyond sqrt(tokens) most, for all `tokens` that will be summed. */
void gram_bound_raise(float *most, const float *x, int64_t n, int64_t tokens);
void gram_bound_make(double *bound, const float *most, int64_t n, int64_t tokens);

/* Factor H = R Rᵀ with R upper triangular, positive diagonal (a Cholesky of the index-reversed H:
 * docs/math/gptq.md), in place in f64: on entry the upper triangle of H (n, n) row-major, on exit R
 * there, zeros below. ERR_NUMERIC: not positive definite (or not finite), a is garbage; raise the
 * damping and start from H again. Parallel. */
MUST_USE enum status chol_upper(double *a, int64_t n, struct err *e);

/* inv (m, m) = inverse of the upper triangular leading block a[i0.., i0..] of order m (row pitch
 * lda); zeros below. */
MUST_USE enum status triangular_inverse(double *inv, const double *a, int64_t lda, int64_t i0,
                                        int64_t m, struct err *e);

/* matmul: matrix products in the scalar type `real` (f32; f64 in the test build, math/real.h).
 *
 * All matrices are row-major; ld* is the leading dimension (row pitch) in elements; beta is 0 (y is
 * overwritten and may be uninitialised) or 1 (y is added to). y overlaps neither a nor b.
 * gemm_*: one call of BLAS, or of oneDNN where that is faster (by form, shape and CPU alone), on
 * the calling thread. mat_*: the same product, parallel (OpenMP) over
 * tiles of the result whose shapes depend on m and n alone, so that the bits do not depend on the
 * number of threads. */
#pragma once
#include "math/real.h"
#include <stdbool.h>
#include <stdint.h>

/* y (m, n) = beta y + a (m, k) b (n, k)ᵀ. */
void gemm_nt(real *y, int64_t ldy, const real *a, int64_t lda, const real *b, int64_t ldb,
             int64_t m, int64_t n, int64_t k, real beta);
void mat_nt(real *y, int64_t ldy, const real *a, int64_t lda, const real *b, int64_t ldb, int64_t m,
            int64_t n, int64_t k, real beta);
/* y (m, n) = beta y + a (m, k) b (k, n). */
void gemm_nn(real *y, int64_t ldy, const real *a, int64_t lda, const real *b, int64_t ldb,
             int64_t m, int64_t n, int64_t k, real beta);
void mat_nn(real *y, int64_t ldy, const real *a, int64_t lda, const real *b, int64_t ldb, int64_t m,
            int64_t n, int64_t k, real beta);
/* y (m, n) = beta y + a (k, m)ᵀ b (k, n). */
void gemm_tn(real *y, int64_t ldy, const real *a, int64_t lda, const real *b, int64_t ldb,
             int64_t m, int64_t n, int64_t k, real beta);
void mat_tn(real *y, int64_t ldy, const real *a, int64_t lda, const real *b, int64_t ldb, int64_t m,
            int64_t n, int64_t k, real beta);
/* Whether a product y (m, n) of sums of k terms is large enough for oneDNN, where it can be used.
 */
bool gemm_large(int64_t m, int64_t n, int64_t k);

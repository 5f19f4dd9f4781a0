/* matmul: matrix products in the scalar type `real` (f32; f64 in the test build, math/real.h).
 *
 * All matrices are row-major; ld* is the leading dimension (row pitch) in elements; beta is 0 (y is
 * overwritten and may be uninitialised) or 1 (y is added to). y overlaps neither a nor b. */
#pragma once
#include "math/real.h"
#include <stdbool.h>
#include <stdint.h>

/* Products of sums of k terms, y (m, n) = beta y + ... */
enum mat_form {
    MAT_NT, /* a (m, k) b (n, k)ᵀ */
    MAT_NN, /* a (m, k) b (k, n) */
    MAT_TN  /* a (k, m)ᵀ b (k, n) */
};
/* One call of BLAS, or of oneDNN where that is faster (by form, shape and CPU alone), on the
 * calling thread. */
void mat_gemm(enum mat_form form, real *y, int64_t ldy, const real *a, int64_t lda, const real *b,
              int64_t ldb, int64_t m, int64_t n, int64_t k, real beta);
/* The same, parallel (OpenMP) over tiles of the result whose shapes depend on m and n alone, so
 * that the bits do not depend on the number of threads. */
void mat_tiles(enum mat_form form, real *y, int64_t ldy, const real *a, int64_t lda, const real *b,
               int64_t ldb, int64_t m, int64_t n, int64_t k, real beta);
/* Whether a product y (m, n) of sums of k terms is large enough for oneDNN, where it can be used.
 */
bool mat_large(int64_t m, int64_t n, int64_t k);

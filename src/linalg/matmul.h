/* matmul: matrix products of the derivative code, in the scalar type `real`. mat_* are parallel
 * over tiles of the result whose shapes depend on the problem alone; tile_* are one BLAS call on
 * the calling thread. beta 0 or 1; leading dimensions in elements. */
#pragma once
#include "tensor/real.h"
#include <stdint.h>

#define mat_nt  REAL_NAME(mat_nt)
#define mat_nn  REAL_NAME(mat_nn)
#define mat_tn  REAL_NAME(mat_tn)
#define tile_nt REAL_NAME(tile_nt)
#define tile_nn REAL_NAME(tile_nn)
#define tile_tn REAL_NAME(tile_tn)

/* y (m, n) = beta y + a (m, k) b (n, k)ᵀ. */
void mat_nt(real *y, int64_t ldy, const real *a, int64_t lda, const real *b, int64_t ldb, int64_t m,
            int64_t n, int64_t k, real beta);
/* y (m, n) = beta y + a (m, k) b (k, n). */
void mat_nn(real *y, int64_t ldy, const real *a, int64_t lda, const real *b, int64_t ldb, int64_t m,
            int64_t n, int64_t k, real beta);
/* y (m, n) = beta y + a (k, m)ᵀ b (k, n). */
void mat_tn(real *y, int64_t ldy, const real *a, int64_t lda, const real *b, int64_t ldb, int64_t m,
            int64_t n, int64_t k, real beta);

void tile_nt(real *y, int64_t ldy, const real *a, int64_t lda, const real *b, int64_t ldb,
             int64_t m, int64_t n, int64_t k, real beta);
void tile_nn(real *y, int64_t ldy, const real *a, int64_t lda, const real *b, int64_t ldb,
             int64_t m, int64_t n, int64_t k, real beta);
void tile_tn(real *y, int64_t ldy, const real *a, int64_t lda, const real *b, int64_t ldb,
             int64_t m, int64_t n, int64_t k, real beta);

#include "linalg/matmul.h"
#include "util/num.h"
#include <cblas.h>

#ifdef QTRAJ_REAL_F64
#define cblas_gemm cblas_dgemm
#else
#define cblas_gemm cblas_sgemm
#endif

/* Rows and columns of the result that one BLAS call computes. */
enum { TILE_M = 256, TILE_N = 1024, TILE_TN = 512 };

#define GEMM_FUNCTION(name, ta, tb)                                                                \
    void name(real *y, int64_t ldy, const real *a, int64_t lda, const real *b, int64_t ldb,        \
              int64_t m, int64_t n, int64_t k, real beta)                                          \
    {                                                                                              \
        if (m <= 0 || n <= 0) return;                                                              \
        cblas_gemm(CblasRowMajor, ta, tb, (blasint)m, (blasint)n, (blasint)k, 1, a, (blasint)lda,  \
                   b, (blasint)ldb, beta, y, (blasint)ldy);                                        \
    }

GEMM_FUNCTION(gemm_nt, CblasNoTrans, CblasTrans)
GEMM_FUNCTION(gemm_nn, CblasNoTrans, CblasNoTrans)
GEMM_FUNCTION(gemm_tn, CblasTrans, CblasNoTrans)

/* The loop over tiles is the same for all three: the next row of the result is a_row elements
 * further in a, the next column b_col elements further in b. */
#define MAT_FUNCTION(name, gemm, tile_m, tile_n, a_row, b_col)                                     \
    void name(real *y, int64_t ldy, const real *a, int64_t lda, const real *b, int64_t ldb,        \
              int64_t m, int64_t n, int64_t k, real beta)                                          \
    {                                                                                              \
        int64_t across = (n + (tile_n)-1) / (tile_n), down = (m + (tile_m)-1) / (tile_m);          \
        _Pragma("omp parallel for schedule(dynamic, 1)") for (int64_t i = 0; i < across * down;    \
                                                              i++)                                 \
        {                                                                                          \
            int64_t r = i / across * (tile_m), c = i % across * (tile_n);                          \
            gemm(y + r * ldy + c, ldy, a + r * (a_row), lda, b + c * (b_col), ldb,                 \
                 min64(m - r, tile_m), min64(n - c, tile_n), k, beta);                             \
        }                                                                                          \
    }

MAT_FUNCTION(mat_nt, gemm_nt, TILE_M, TILE_N, lda, ldb)
MAT_FUNCTION(mat_nn, gemm_nn, TILE_M, TILE_N, lda, 1)
MAT_FUNCTION(mat_tn, gemm_tn, TILE_TN, TILE_TN, 1, 1)

#include "math/matmul.h"
#include "math/onednn.h"
#include "util/num.h"
#include <cblas.h>

#ifdef QTRAJ_REAL_F64
#define cblas_gemm cblas_dgemm
#else
#define cblas_gemm cblas_sgemm
#endif

/* Rows and columns of the result that one BLAS call computes. */
enum { TILE_M = 256, TILE_N = 1024, TILE_TN = 512 };

/* What oneDNN computes faster than BLAS where it can (onednn_f32): products of this many
 * multiplications or more, of so many rows. A choice by the shape alone. */
enum { ONEDNN_FROM = 1 << 21, ONEDNN_ROWS = 32 };

bool gemm_large(int64_t m, int64_t n, int64_t k)
{
    return m >= ONEDNN_ROWS && m * n * k >= ONEDNN_FROM;
}

/* Computes the product by oneDNN if that is faster; else returns false. b (k, n), or turned (n, k),
 * begins its rows ldb apart. */
static bool faster(real *y, int64_t ldy, const real *a, int64_t lda, const real *b, int64_t ldb,
                   bool turned, int64_t m, int64_t n, int64_t k, real beta)
{
#ifdef QTRAJ_REAL_F64
    (void)y, (void)ldy, (void)a, (void)lda, (void)b, (void)ldb, (void)turned;
    (void)m, (void)n, (void)k, (void)beta;
    return false;
#else
    const bool dense = lda == k && ldb == (turned ? k : n);
    return gemm_large(m, n, k) && dense && onednn_f32() &&
           onednn_product(y, ldy, a, b, turned, m, n, k, beta != 0);
#endif
}

static void blas(CBLAS_TRANSPOSE of_a, CBLAS_TRANSPOSE of_b, real *y, int64_t ldy, const real *a,
                 int64_t lda, const real *b, int64_t ldb, int64_t m, int64_t n, int64_t k,
                 real beta)
{
    if (m <= 0 || n <= 0) return;
    cblas_gemm(CblasRowMajor, of_a, of_b, (blasint)m, (blasint)n, (blasint)k, 1, a, (blasint)lda, b,
               (blasint)ldb, beta, y, (blasint)ldy);
}

void gemm_nt(real *y, int64_t ldy, const real *a, int64_t lda, const real *b, int64_t ldb,
             int64_t m, int64_t n, int64_t k, real beta)
{
    if (faster(y, ldy, a, lda, b, ldb, true, m, n, k, beta)) return;
    blas(CblasNoTrans, CblasTrans, y, ldy, a, lda, b, ldb, m, n, k, beta);
}

void gemm_nn(real *y, int64_t ldy, const real *a, int64_t lda, const real *b, int64_t ldb,
             int64_t m, int64_t n, int64_t k, real beta)
{
    if (faster(y, ldy, a, lda, b, ldb, false, m, n, k, beta)) return;
    blas(CblasNoTrans, CblasNoTrans, y, ldy, a, lda, b, ldb, m, n, k, beta);
}

void gemm_tn(real *y, int64_t ldy, const real *a, int64_t lda, const real *b, int64_t ldb,
             int64_t m, int64_t n, int64_t k, real beta)
{
    blas(CblasTrans, CblasNoTrans, y, ldy, a, lda, b, ldb, m, n, k, beta);
}

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

#include "math/matmul.h"
#include "math/onednn.h"
#include "util/num.h"
#include <cblas.h>

#ifdef QTRAJ_REAL_F64
#define cblas_gemm cblas_dgemm
#else
#define cblas_gemm cblas_sgemm
#endif

/* What oneDNN computes faster than BLAS where it can (onednn_found): products of this many
 * multiplications or more, of so many rows. A choice by the shape alone. */
enum { ONEDNN_FROM = 1 << 21, ONEDNN_ROWS = 32 };

bool mat_large(int64_t m, int64_t n, int64_t k)
{
    return m >= ONEDNN_ROWS && m * n * k >= ONEDNN_FROM;
}

void mat_gemm(enum mat_form form, real *y, int64_t ldy, const real *a, int64_t lda, const real *b,
              int64_t ldb, int64_t m, int64_t n, int64_t k, real beta)
{
    const bool turned = form == MAT_NT; /* b */
    if (m <= 0 || n <= 0) return;
#ifndef QTRAJ_REAL_F64
    const bool dense = form != MAT_TN && lda == k && ldb == (turned ? k : n);
    if (dense && mat_large(m, n, k) && onednn_found()->f32 &&
        onednn_product(y, ldy, a, b, turned, m, n, k, beta != 0))
        return;
#endif
    cblas_gemm(CblasRowMajor, form == MAT_TN ? CblasTrans : CblasNoTrans,
               turned ? CblasTrans : CblasNoTrans, (blasint)m, (blasint)n, (blasint)k, 1, a,
               (blasint)lda, b, (blasint)ldb, beta, y, (blasint)ldy);
}

void mat_tiles(enum mat_form form, real *y, int64_t ldy, const real *a, int64_t lda, const real *b,
               int64_t ldb, int64_t m, int64_t n, int64_t k, real beta)
{
    const int64_t rows = form == MAT_TN ? 512 : 256, cols = form == MAT_TN ? 512 : 1024;
    const int64_t across = (n + cols - 1) / cols, down = (m + rows - 1) / rows;
    /* The next row of the result is so much further in a, the next column in b. */
    const int64_t next_a = form == MAT_TN ? 1 : lda, next_b = form == MAT_NT ? ldb : 1;
#pragma omp parallel for schedule(dynamic, 1)
    for (int64_t i = 0; i < across * down; i++) {
        const int64_t r = i / across * rows, c = i % across * cols;
        mat_gemm(form, y + r * ldy + c, ldy, a + r * next_a, lda, b + c * next_b, ldb,
                 min64(m - r, rows), min64(n - c, cols), k, beta);
    }
}

/* The Cholesky factor that GPTQ needs: H = R Rᵀ with R upper triangular. LAPACK factors H = L Lᵀ
 * only, from the first row down. So the blocked loop is written here and runs from the last block
 * up; LAPACK factors the diagonal blocks with rows and columns reversed. */
#include "math/linalg.h"
#include "util/mem.h"
#include "util/num.h"
#include <cblas.h>
#include <math.h>

void dpotrf_(const char *uplo, const blasint *n, double *a, const blasint *lda, blasint *info);
void dtrtri_(const char *uplo, const char *diag, const blasint *n, double *a, const blasint *lda,
             blasint *info);

enum { CHOL_BLOCK = 192 };

/* Factors the diagonal block of order m at a, in place: with J the reversal of the indices and
 * J A J = G Gᵀ, G lower triangular, R = J G J. A row-major lower triangle is LAPACK's upper one.
 * Returns -1, or the index within the block of the pivot that failed. */
static int64_t diagonal_factor(double *a, int64_t lda, int64_t m, double *flip)
{
    blasint order = (blasint)m, info = 0;
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j <= i; j++) flip[i * m + j] = a[(m - 1 - i) * lda + (m - 1 - j)];
    dpotrf_("U", &order, flip, &order, &info);
    if (info > 0) return m - info;
    for (int64_t i = 0; i < m; i++) {
        /* OpenBLAS does not report a NaN pivot. */
        if (!(flip[i * m + i] > 0 && isfinite(flip[i * m + i]))) return m - 1 - i;
        for (int64_t j = 0; j <= i; j++) a[(m - 1 - i) * lda + (m - 1 - j)] = flip[i * m + j];
    }
    return -1;
}

/* Rows above the diagonal block [k, k + m): A_ik becomes A_ik R_kk⁻ᵀ. */
static void panel_solve(double *a, int64_t n, int64_t k, int64_t m)
{
#pragma omp parallel for schedule(dynamic)
    for (int64_t i = 0; i < k; i += CHOL_BLOCK)
        cblas_dtrsm(CblasRowMajor, CblasRight, CblasUpper, CblasTrans, CblasNonUnit,
                    (blasint)min64(CHOL_BLOCK, k - i), (blasint)m, 1.0, a + k * n + k, (blasint)n,
                    a + i * n + k, (blasint)n);
}

/* One tile of the remaining matrix: A_ij -= R_ik R_jkᵀ; of a diagonal tile the upper triangle. */
static void tile_update(double *a, int64_t n, int64_t k, int64_t m, int64_t i, int64_t j)
{
    blasint rows = (blasint)min64(CHOL_BLOCK, k - i), cols = (blasint)min64(CHOL_BLOCK, k - j);
    if (i == j)
        cblas_dsyrk(CblasRowMajor, CblasUpper, CblasNoTrans, rows, (blasint)m, -1.0, a + i * n + k,
                    (blasint)n, 1.0, a + i * n + i, (blasint)n);
    else
        cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, rows, cols, (blasint)m, -1.0,
                    a + i * n + k, (blasint)n, a + j * n + k, (blasint)n, 1.0, a + i * n + j,
                    (blasint)n);
}

static void remaining_update(double *a, int64_t n, int64_t k, int64_t m)
{
    int64_t tiles = (k + CHOL_BLOCK - 1) / CHOL_BLOCK;
#pragma omp parallel for schedule(dynamic)
    for (int64_t t = 0; t < tiles * tiles; t++) {
        int64_t i = t / tiles, j = t % tiles;
        if (i <= j) tile_update(a, n, k, m, i * CHOL_BLOCK, j * CHOL_BLOCK);
    }
}

enum status chol_upper(double *a, int64_t n, struct err *e)
{
    AUTO_FREE double *flip = NULL;
    PASS(mem_zero(&flip, CHOL_BLOCK * CHOL_BLOCK, sizeof *flip, "a diagonal block", e));
    for (int64_t end = n; end > 0;) {
        /* Blocks are counted from the first row, so that all tiles above are whole. */
        int64_t k = (end - 1) / CHOL_BLOCK * CHOL_BLOCK, m = end - k;
        int64_t bad = diagonal_factor(a + k * n + k, n, m, flip);
        NEED(bad < 0, ERR_NUMERIC,
             "the matrix of order %lld is not positive definite at channel %lld", (long long)n,
             (long long)(k + bad));
        panel_solve(a, n, k, m);
        remaining_update(a, n, k, m);
        end = k;
    }
    for (int64_t i = 1; i < n; i++) memset(a + i * n, 0, (size_t)i * sizeof *a);
    return OK;
}

void triangular_divide(double *a, int64_t m, const double *r, int64_t n, bool transposed)
{
#pragma omp parallel for schedule(dynamic)
    for (int64_t i = 0; i < m; i += CHOL_BLOCK)
        cblas_dtrsm(CblasRowMajor, CblasRight, CblasUpper, transposed ? CblasTrans : CblasNoTrans,
                    CblasNonUnit, (blasint)min64(CHOL_BLOCK, m - i), (blasint)n, 1.0, r, (blasint)n,
                    a + i * n, (blasint)n);
}

enum status triangular_inverse(double *inv, const double *a, int64_t lda, int64_t i0, int64_t m,
                               struct err *e)
{
    blasint order = (blasint)m, info = 0;
    for (int64_t i = 0; i < m; i++) {
        memset(inv + i * m, 0, (size_t)i * sizeof *inv);
        memcpy(inv + i * m + i, a + (i0 + i) * lda + i0 + i, (size_t)(m - i) * sizeof *inv);
    }
    if (m > 0) dtrtri_("L", "N", &order, inv, &order, &info); /* row-major upper */
    NEED(info == 0, ERR_NUMERIC, "the triangular matrix is singular at channel %lld",
         (long long)(i0 + info - 1));
    return OK;
}

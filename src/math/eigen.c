#include "math/eigen.h"
#include "util/mem.h"
#include <cblas.h>
#include <math.h>

void dsyev_(const char *jobz, const char *uplo, const blasint *n, double *a, const blasint *lda,
            double *w, double *work, const blasint *lwork, blasint *info);
void dstev_(const char *jobz, const blasint *n, double *d, double *e, double *z, const blasint *ldz,
            double *work, blasint *info);

void dgesv_(const blasint *n, const blasint *nrhs, double *a, const blasint *lda, blasint *pivot,
            double *b, const blasint *ldb, blasint *info);

enum { ORDER_MAX = 1 << 15 };

/* Given a NaN, LAPACK may loop forever or write garbage. */
static bool all_finite(const double *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(x[i])) return false;
    return true;
}

static enum status check(int64_t n, bool finite, struct err *e)
{
    NEED(n >= 0 && n <= ORDER_MAX, ERR_SHAPE, "a matrix of order %lld: expected at most %d",
         (long long)n, ORDER_MAX);
    NEED(finite, ERR_NUMERIC, "a matrix of order %lld is not finite", (long long)n);
    return OK;
}

static enum status converged(const char *routine, int64_t n, blasint info, struct err *e)
{
    NEED(info == 0, ERR_NUMERIC, "%s of order %lld did not converge (info %d)", routine,
         (long long)n, (int)info);
    return OK;
}

enum status symmetric_eigen(int64_t n, double *a, double *w, struct err *e)
{
    AUTO_FREE double *work = NULL;
    double best = 0;
    blasint order = (blasint)n, lda = n > 0 ? order : 1, lwork = -1, info = 0;
    PASS(check(n, all_finite(a, n * n), e));
    /* LAPACK is column-major: our upper triangle is its lower one, its columns are our rows. */
    dsyev_("V", "L", &order, a, &lda, w, &best, &lwork, &info);
    PASS(converged("dsyev", n, info, e));
    lwork = (blasint)best;
    PASS(mem_alloc(&work, lwork, sizeof *work, "dsyev's workspace", e));
    dsyev_("V", "L", &order, a, &lda, w, work, &lwork, &info);
    return converged("dsyev", n, info, e);
}

enum status low_rank(int64_t rows, int64_t cols, const double *a, int64_t rank, double *left,
                     double *right, struct err *e)
{
    const bool tall = rows >= cols;
    const int64_t n = tall ? cols : rows, m = tall ? rows : cols;
    AUTO_FREE double *g = NULL, *value = NULL;
    PASS(check(m, true, e));
    PASS(mem_zero(&g, n * n, sizeof *g, "squares of a matrix", e));
    PASS(mem_alloc(&value, n, sizeof *value, "squares of a matrix", e));
    cblas_dsyrk(CblasRowMajor, CblasUpper, tall ? CblasTrans : CblasNoTrans, (blasint)n, (blasint)m,
                1, a, (blasint)cols, 0, g, (blasint)n);
    PASS(symmetric_eigen(n, g, value, e));
    const double *own = g + (n - rank) * n;
    memcpy(tall ? right : left, own, (size_t)(rank * n) * sizeof *own);
    cblas_dgemm(CblasRowMajor, CblasNoTrans, tall ? CblasTrans : CblasNoTrans, (blasint)rank,
                (blasint)m, (blasint)n, 1, own, (blasint)n, a, (blasint)cols, 0,
                tall ? left : right, (blasint)m);
    for (int64_t k = 0; k < rank && !tall; k++) { /* lengths go to the left */
        const double size = cblas_dnrm2((blasint)cols, right + k * cols, 1);
        cblas_dscal((blasint)rows, size, left + k * rows, 1);
        if (size > 0) cblas_dscal((blasint)cols, 1 / size, right + k * cols, 1);
    }
    return OK;
}

enum status tridiagonal_eigen(int64_t n, double *d, double *b, double *z, struct err *e)
{
    AUTO_FREE double *work = NULL;
    blasint order = (blasint)n, ldz = n > 0 ? order : 1, info = 0;
    PASS(check(n, all_finite(d, n) && all_finite(b, n - 1), e));
    PASS(mem_alloc(&work, n > 1 ? 2 * n - 2 : 1, sizeof *work, "dstev's workspace", e));
    dstev_(z ? "V" : "N", &order, d, b, z, &ldz, work, &info);
    return converged("dstev", n, info, e);
}

static void transpose(double *a, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = i + 1; j < n; j++) {
            const double other = a[j * n + i];
            a[j * n + i] = a[i * n + j];
            a[i * n + j] = other;
        }
}

enum status linear_solve(int64_t n, double *a, double *x, struct err *e)
{
    AUTO_FREE blasint *pivot = NULL;
    blasint order = (blasint)n, lda = n > 0 ? order : 1, info = 0;
    PASS(check(n, all_finite(a, n * n) && all_finite(x, n * n), e));
    PASS(mem_alloc(&pivot, n, sizeof *pivot, "dgesv's pivots", e));
    transpose(a, n);
    transpose(x, n);
    dgesv_(&order, &order, a, &lda, pivot, x, &lda, &info);
    transpose(x, n);
    NEED(info == 0, ERR_NUMERIC, "a system of order %lld is singular (dgesv, info %d)",
         (long long)n, (int)info);
    return OK;
}

#include "math/rates.h"
#include "math/linalg.h"
#include "math/products.h"
#include "util/clock.h"
#include "util/mem.h"
#include <cblas.h>
#include <dlfcn.h>
#include <omp.h>
#include <stdio.h>

void dgemm_(const char *transa, const char *transb, const blasint *m, const blasint *n,
            const blasint *k, const double *alpha, const double *a, const blasint *lda,
            const double *b, const blasint *ldb, const double *beta, double *c, const blasint *ldc);

/* Square matrices of this order; a product has three of them. */
enum { ORDER = 384, ELEMENTS = ORDER * ORDER, MATRICES = 3 };

/* c = a bᵀ; the three matrices are contiguous. */
typedef void product(void *matrices);

static void product_f32(void *matrices)
{
    float *a = matrices;
    mat_gemm(MAT_NT, a + 2 * ELEMENTS, ORDER, a, ORDER, a + ELEMENTS, ORDER, ORDER, ORDER, ORDER,
             0);
}

static void product_f64(void *matrices)
{
    double *a = matrices;
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, ORDER, ORDER, ORDER, 1.0, a, ORDER,
                a + ELEMENTS, ORDER, 0.0, a + 2 * ELEMENTS, ORDER);
}

/* The second matrix, prepared. */
static const struct product_weights *prepared;

static void product_bf16(void *matrices)
{
    float *a = matrices;
    product_nt(PRODUCTS_BF16, a + 2 * ELEMENTS, ORDER, matrices, ELEMENTS, prepared, 0, ORDER);
}

static void product_fortran(void *matrices)
{
    double *a = matrices;
    const blasint order = ORDER;
    const double one = 1, zero = 0;
    dgemm_("N", "T", &order, &order, &order, &one, a, &order, a + ELEMENTS, &order, &zero,
           a + 2 * ELEMENTS, &order);
}

/* Repeats the product on one thread until the clock reads `until`, at least once; returns how
 * often. */
static int64_t repeat(product *f, void *matrices, double until)
{
    int64_t done = 0;
    do {
        f(matrices);
        done++;
    } while (clock_seconds() < until);
    return done;
}

/* FLOP/s of all threads together. They start together; the first product of each is not counted. */
static double rate(product *f, double *buffer, int threads, double seconds)
{
    int64_t products = 0;
    double start = 0, end = 0;
#pragma omp parallel num_threads(threads) reduction(+ : products) reduction(max : end)
    {
        double *matrices = buffer + (int64_t)omp_get_thread_num() * MATRICES * ELEMENTS;
        repeat(f, matrices, 0);
#pragma omp barrier
#pragma omp single
        start = clock_seconds();
        products = repeat(f, matrices, start + seconds);
        end = clock_seconds();
    }
    return 2.0 * ORDER * ELEMENTS * (double)products / (end - start);
}

static enum status matrices_make(double **out, int threads, struct err *e)
{
    int64_t n = (int64_t)threads * MATRICES * ELEMENTS;
    PASS(mem_alloc(out, n, sizeof **out, "matrices for a measurement", e));
    for (int64_t i = 0; i < n; i++) (*out)[i] = (double)(i % 97) / 97 - 0.5;
    return OK;
}

enum status linalg_rates_measure(double seconds, struct linalg_rates *out, struct err *e)
{
    enum status st = OK;
    double *buffer = NULL;
    struct product_weights *weights = NULL;
    /* More threads than cores are no faster, and OpenBLAS has no buffers for thousands of them. */
    int threads = omp_get_max_threads(), cores = omp_get_num_procs();
    if (threads > cores) threads = cores;
    TRY(linalg_reserve(threads, e));
    TRY(matrices_make(&buffer, threads, e));
    *out = (struct linalg_rates){.threads = threads};
    out->dgemm = rate(product_f64, buffer, threads, seconds);
    float *f = (float *)buffer;
    for (int64_t i = 0; i < 2 * (int64_t)threads * MATRICES * ELEMENTS; i++)
        f[i] = (float)(i % 89) / 89 - 0.5f;
    out->sgemm = rate(product_f32, buffer, threads, seconds);
    TRY(product_weights_make(PRODUCTS_BF16, f, ORDER, ORDER, ORDER, &weights, e));
    prepared = weights;
    memset(buffer, 0, (size_t)(threads * MATRICES * ELEMENTS) * sizeof *buffer);
    out->bf16 = rate(product_bf16, buffer, threads, seconds);
done:
    prepared = NULL;
    product_weights_free(weights);
    free(buffer);
    return st;
}

enum status linalg_fortran_measure(double seconds, struct linalg_fortran *out, struct err *e)
{
    AUTO_FREE double *buffer = NULL;
    Dl_info from;
    *out = (struct linalg_fortran){0};
    PASS(linalg_reserve(1, e));
    PASS(matrices_make(&buffer, 1, e));
    void *symbol = dlsym(RTLD_DEFAULT, "dgemm_");
    if (symbol && dladdr(symbol, &from) && from.dli_fname)
        snprintf(out->library, sizeof out->library, "%s", from.dli_fname);
    out->cblas = rate(product_f64, buffer, 1, seconds);
    out->dgemm = rate(product_fortran, buffer, 1, seconds);
    return OK;
}

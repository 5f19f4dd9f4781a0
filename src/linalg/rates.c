#include "linalg/rates.h"
#include "linalg/linalg.h"
#include "util/clock.h"
#include "util/mem.h"
#include <cblas.h>
#include <dlfcn.h>
#include <omp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

void dgemm_(const char *transa, const char *transb, const blasint *m, const blasint *n,
            const blasint *k, const double *alpha, const double *a, const blasint *lda,
            const double *b, const blasint *ldb, const double *beta, double *c, const blasint *ldc);

enum { ORDER = 384, OPERANDS = 3 };

static void fill(double *a, int64_t n)
{
    for (int64_t i = 0; i < n; i++) a[i] = (double)(i % 97) / 97 - 0.5;
}

/* One thread's products until the time is up; returns how many. */
static int64_t multiply(double *room, bool wide, double until)
{
    const int64_t n = (int64_t)ORDER * ORDER;
    int64_t done = 0;
    for (; clock_seconds() < until; done++) {
        if (wide) {
            cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, ORDER, ORDER, ORDER, 1.0, room,
                        ORDER, room + n, ORDER, 0.0, room + 2 * n, ORDER);
        } else {
            float *f = (float *)room;
            gemm_nt(f + 2 * n, ORDER, f, ORDER, f + n, ORDER, ORDER, ORDER, ORDER);
        }
    }
    return done;
}

/* All threads start together; the first product of each is not counted. */
static double rate(double *room, int threads, bool wide, double seconds)
{
    const int64_t n = (int64_t)ORDER * ORDER;
    int64_t products = 0;
    double start = 0, end = 0;
#pragma omp parallel num_threads(threads) reduction(+ : products) reduction(max : end)
    {
        double *own = room + omp_get_thread_num() * OPERANDS * n;
        multiply(own, wide, clock_seconds() + 1e-3);
#pragma omp barrier
#pragma omp single
        start = clock_seconds();
        products = multiply(own, wide, start + seconds);
        end = clock_seconds();
    }
    return 2.0 * ORDER * (double)n * (double)products / (end - start);
}

enum status linalg_rates_measure(double seconds, struct linalg_rates *out, struct err *e)
{
    enum status st = OK;
    double *room = NULL;
    const int64_t n = (int64_t)ORDER * ORDER;
    /* More threads than cores are no faster, and thousands are more than OpenBLAS has room for. */
    int threads = omp_get_max_threads(), cores = omp_get_num_procs();
    if (threads > cores) threads = cores;
    TRY(mem_alloc(&room, threads * OPERANDS * n, sizeof *room, "matrices for a measurement", e));

    fill(room, threads * OPERANDS * n);
    *out = (struct linalg_rates){.threads = threads};
    out->dgemm = rate(room, threads, true, seconds);
    float *f = (float *)room;
    for (int64_t i = 0; i < 2 * threads * OPERANDS * n; i++) f[i] = (float)(i % 89) / 89 - 0.5f;
    out->sgemm = rate(room, threads, false, seconds);
done:
    free(room);
    return st;
}

/* One thread's rate of either interface. */
static double rate_of_one(double *room, bool fortran, double seconds)
{
    const int64_t n = (int64_t)ORDER * ORDER;
    const blasint order = ORDER;
    const double one = 1, zero = 0;
    int64_t products = -1; /* the first is not counted */
    double start = 0, now = 0;
    do {
        if (fortran)
            dgemm_("N", "T", &order, &order, &order, &one, room, &order, room + n, &order, &zero,
                   room + 2 * n, &order);
        else
            cblas_dgemm(CblasColMajor, CblasNoTrans, CblasTrans, ORDER, ORDER, ORDER, 1.0, room,
                        ORDER, room + n, ORDER, 0.0, room + 2 * n, ORDER);
        now = clock_seconds();
        if (++products == 0) start = now;
    } while (now - start < seconds || products == 0);
    return 2.0 * ORDER * (double)n * (double)products / (now - start);
}

enum status linalg_fortran_measure(double seconds, struct linalg_fortran *out, struct err *e)
{
    enum status st = OK;
    double *room = NULL;
    const int64_t n = (int64_t)ORDER * ORDER;
    Dl_info from;
    *out = (struct linalg_fortran){0};
    TRY(mem_alloc(&room, OPERANDS * n, sizeof *room, "matrices for a measurement", e));
    fill(room, OPERANDS * n);
    void *symbol = dlsym(RTLD_DEFAULT, "dgemm_");
    if (symbol && dladdr(symbol, &from) && from.dli_fname)
        snprintf(out->library, sizeof out->library, "%s", from.dli_fname);
    out->own = rate_of_one(room, false, seconds);
    out->dgemm = rate_of_one(room, true, seconds);
done:
    free(room);
    return st;
}

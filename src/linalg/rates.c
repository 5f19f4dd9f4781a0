#include "linalg/rates.h"
#include "linalg/linalg.h"
#include "util/clock.h"
#include "util/mem.h"
#include <cblas.h>
#include <omp.h>
#include <stdbool.h>
#include <stdlib.h>

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
static double rate(double *room, bool wide, double seconds)
{
    const int64_t n = (int64_t)ORDER * ORDER;
    int64_t products = 0;
    double start = 0, end = 0;
#pragma omp parallel reduction(+ : products) reduction(max : end)
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
    int threads = omp_get_max_threads();
    TRY(mem_alloc(&room, threads * OPERANDS * n, sizeof *room, "matrices for a measurement", e));

    fill(room, threads * OPERANDS * n);
    *out = (struct linalg_rates){.threads = threads};
    out->dgemm = rate(room, true, seconds);
    float *f = (float *)room;
    for (int64_t i = 0; i < 2 * threads * OPERANDS * n; i++) f[i] = (float)(i % 89) / 89 - 0.5f;
    out->sgemm = rate(room, false, seconds);
done:
    free(room);
    return st;
}

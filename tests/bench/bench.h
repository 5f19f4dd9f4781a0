/* bench: helpers of the bench programs. Every figure is the best of several runs, because machines
 * are shared; rates are relative to sgemm's, measured in the same run with the same threads. */
#pragma once
#include "math/isa.h"
#include "math/linalg.h"
#include "util/clock.h"
#include "util/mem.h"
#include <cblas.h>
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static inline void must(enum status st, const struct err *e)
{
    if (st == OK) return;
    fprintf(stderr, "bench: %s\n", e->text);
    exit(1);
}

static inline void *room(int64_t n, size_t size)
{
    void *p;
    struct err e = {0};
    must(mem_zero(&p, n, size, "bench", &e), &e);
    return p;
}

/* With QTRAJ_BENCH_CPU: processor time, for a single thread on a shared machine. */
static inline double bench_seconds(void)
{
    struct timespec t;
    if (!getenv("QTRAJ_BENCH_CPU")) return clock_seconds();
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* n values in [-scale, scale), the same in every run. */
static inline float *noise(int64_t n, float scale)
{
    float *x = room(n, sizeof *x);
    uint64_t s = 17 + (uint64_t)n;
    for (int64_t i = 0; i < n; i++) {
        s = s * 6364136223846793005u + 1442695040888963407u;
        x[i] = scale * (float)((double)(s >> 40) / (1 << 23) - 1.0);
    }
    return x;
}

/* seconds = the minimum time of the statement over `runs` runs. */
#define BEST(seconds, runs, statement)                                                             \
    do {                                                                                           \
        (seconds) = INFINITY;                                                                      \
        for (int run_ = 0; run_ < (runs); run_++) {                                                \
            double start_ = clock_seconds();                                                       \
            statement;                                                                             \
            double took_ = clock_seconds() - start_;                                               \
            if (took_ < (seconds)) (seconds) = took_;                                              \
        }                                                                                          \
    } while (0)

/* y (T, n) = x (T, k) W (n, k)ᵀ, one part of x's rows per thread: the rate of BLAS alone at these
 * shapes. Returns seconds, best of `runs`. */
static inline double sgemm_seconds(int64_t T, int64_t n, int64_t k, int runs)
{
    float *x = noise(T * k, 1), *w = noise(n * k, 1), *y = room(T * n, sizeof *y);
    int64_t threads = omp_get_max_threads(), part = (T + threads - 1) / threads;
    double seconds;
    BEST(seconds, runs,
         _Pragma("omp parallel for schedule(static, 1)") for (int64_t t = 0; t < T; t += part)
             mat_gemm(MAT_NT, y + t * n, n, x + t * k, k, w, k, T - t < part ? T - t : part, n, k,
                      0));
    free(x), free(w), free(y);
    return seconds;
}

static inline void print_machine(void)
{
    printf("%s; kernels %s; %d threads\n", linalg_blas_name(), isa_name(isa_active()),
           omp_get_max_threads());
}

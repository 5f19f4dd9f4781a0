/* Rates of the distributed Hessian in a group of ranks, relative to plain matrix products on the
 * same ranks at the same time:
 *   mpirun -n 2 build/release/bench_dist [n] [tokens]        default 8192 2048
 * Tokens are the total over all ranks: with few, the final exchange of the sums weighs more.
 * Prints the rates of the factorisation, filling included, and of the
 * Gram sums, each as a share of dgemm's or sgemm's. One thread a rank unless OMP_NUM_THREADS says
 * more (then the products run one a thread too). */
#include "math/dist.h"
#include "math/linalg.h"
#include "util/clock.h"
#include "util/mem.h"
#include <cblas.h>
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, ranks;

static void *room(int64_t n, size_t size)
{
    void *p;
    struct err e = {0};
    if (mem_zero(&p, n, size, "bench", &e) != OK) {
        fprintf(stderr, "%s\n", e.text);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return p;
}

static void must(enum status st, const struct err *e)
{
    if (st == OK) return;
    fprintf(stderr, "rank %d: %s\n", rank, e->text);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* Seconds since start, of the slowest rank. */
static double since(double start)
{
    double own = clock_seconds() - start, most;
    MPI_Allreduce(&own, &most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return most;
}

static double meet(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
    return clock_seconds();
}

/* The best of some rounds counts: in the first, pages are touched for the first time. */
enum { SIDE = 2048, ROUNDS = 3 };

static void product_double(const void *pair, void *out)
{
    const double *a = pair;
    cblas_dgemm(CblasColMajor, CblasNoTrans, CblasTrans, SIDE, SIDE, SIDE, 1, a, SIDE,
                a + (int64_t)SIDE * SIDE, SIDE, 0, out, SIDE);
}

static void product_single(const void *pair, void *out)
{
    const float *a = pair;
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, SIDE, SIDE, SIDE, 1, a, SIDE,
                a + (int64_t)SIDE * SIDE, SIDE, 0, out, SIDE);
}

/* Flops a second of all ranks together, every thread with a product of its own: of two matrices of
 * numbers of that size. */
static double rate(void (*product)(const void *pair, void *out), size_t size)
{
    const int64_t matrix = (int64_t)SIDE * SIDE;
    int threads = omp_get_max_threads();
    char *pair = room(2 * matrix, size), *out = room(threads * matrix, size);
    double best = 0;
    memset(pair, 0x3f, 2 * (size_t)matrix * size); /* a normal number in either type */
    for (int k = 0; k < ROUNDS; k++) {
        double start = meet();
#pragma omp parallel
        product(pair, out + (size_t)(omp_get_thread_num() * matrix) * size);
        double found = 2.0 * SIDE * SIDE * SIDE * threads * ranks / since(start);
        if (found > best) best = found;
    }
    free(pair), free(out);
    return best;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    linalg_setup();
    struct err e = {0};
    struct dist *d;
    int64_t n = argc > 1 ? atoll(argv[1]) : 8192, tokens = argc > 2 ? atoll(argv[2]) : 2048;
    int64_t own = tokens / ranks;
    const int64_t offset[2] = {0, own};
    float *x = room(own * n, sizeof *x), *most = room(n, sizeof *most);
    double *diagonal = room(n, sizeof *diagonal), *bound = room(n, sizeof *bound);
    uint64_t s = 17 + (uint64_t)rank;
    for (int64_t i = 0; i < own * n; i++) {
        s = s * 6364136223846793005u + 1442695040888963407u;
        x[i] = (float)((double)(s >> 40) / (1 << 23) - 1.0);
    }
    must(dist_make(MPI_COMM_WORLD, n, (struct dist_shape){0}, &d, &e), &e);
    double dgemm = rate(product_double, sizeof(double));
    double sgemm = rate(product_single, sizeof(float));

    double gram = 1e300, exact = 1e300, factor = 1e300;
    for (int k = 0; k < ROUNDS; k++) {
        double start = meet();
        must(dist_gram_add(d, x, offset, 1, NULL, &e), &e);
        gram = fmin(gram, since(start));
        start = meet();
        gram_bound_raise(most, x, n, own);
        MPI_Allreduce(MPI_IN_PLACE, most, (int)n, MPI_FLOAT, MPI_MAX, MPI_COMM_WORLD);
        gram_bound_make(bound, most, n, own * ranks);
        must(dist_gram_add(d, x, offset, 1, bound, &e), &e);
        exact = fmin(exact, since(start));
    }

    must(dist_diagonal(d, diagonal, &e), &e);
    for (int64_t i = 0; i < n; i++) diagonal[i] += 0.01 * (double)tokens;
    for (int k = 0; k < ROUNDS; k++) {
        double start = meet();
        must(dist_factor(d, NULL, 1, diagonal, &e), &e);
        factor = fmin(factor, since(start));
    }
    double order = (double)n, syrk = order * (order + 1) * (double)(own * ranks);
    if (rank == 0) {
        printf("%d ranks, %d threads each, n %lld, %lld tokens, %s\n", ranks, omp_get_max_threads(),
               (long long)n, (long long)(own * ranks), linalg_blas_name());
        printf("dgemm %.1f GF/s, sgemm %.1f GF/s\n", dgemm / 1e9, sgemm / 1e9);
        printf("pdpotrf with filling: %.2f s, %.1f GF/s, %.0f %% of dgemm\n", factor,
               order * order * order / 3 / factor / 1e9,
               100 * order * order * order / 3 / factor / dgemm);
        printf("Gram sums, reduced: %.2f s, %.1f GF/s, %.0f %% of sgemm\n", gram, syrk / gram / 1e9,
               100 * syrk / gram / sgemm);
        printf("the same, reproducible: %.2f s, %.1f GF/s, %.0f %% of sgemm; costs %.0f %%\n",
               exact, syrk / exact / 1e9, 100 * syrk / exact / sgemm, 100 * (exact / gram - 1));
    }
    dist_free(d);
    free(x), free(most), free(diagonal), free(bound);
    MPI_Finalize();
    return 0;
}

/* Rate of training steps on random tokens, as torch's peer counts it: tokens over the median of the
 * steps' times.
 *
 * usage: bench_train DIR SEQUENCES LENGTH [STEPS [MICRO]]
 * QTRAJ_BENCH_PRODUCTS in the environment: the kind of the products. Prints one JSON object. */
#include "bench.h"
#include "train/trainer.h"
#include <mpi.h>

enum { SKIP = 2 };

static double cpu_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *x, int64_t n)
{
    qsort(x, (size_t)n, sizeof *x, ascending);
    return x[n / 2];
}

int main(int argc, char **argv)
{
    struct err e = {0};
    struct trainer *t;
    struct train_result r = {0};
    linalg_choose_kernels(argv);
    mem_setup();
    mem_keep_freed();
    MPI_Init(&argc, &argv);
    if (argc < 4) return fprintf(stderr, "usage: see the source\n"), 1;
    const int64_t n = atoll(argv[2]), length = atoll(argv[3]);
    const int64_t steps = argc > 4 ? atoll(argv[4]) : 5, micro = argc > 5 ? atoll(argv[5]) : n;
    const struct trainer_options o = {
        .optimizer = {.betas = {0.9, 0.95}, .eps = 1e-8, .weight_decay = 0.1, .clip = 1},
        .micro = micro,
        .products = products_of_word(getenv("QTRAJ_BENCH_PRODUCTS")),
        .memory = (int64_t)8 << 30,
        .ranks = MPI_COMM_SELF};
    linalg_setup();
    must(linalg_reserve(omp_get_max_threads(), &e), &e);
    must(trainer_open(argv[1], &o, &t, &e), &e);
    const int64_t vocab = model_shape(trainer_model(t))->vocab;
    double *wall = room(steps, sizeof *wall), *cpu = room(steps, sizeof *cpu), first = 0;
    int32_t *tokens = room(n * (length + 1), sizeof *tokens);
    uint64_t s = 1;
    for (int64_t k = -SKIP; k < steps; k++) {
        for (int64_t i = 0; i < n * (length + 1); i++) {
            s = s * 6364136223846793005u + 1442695040888963407u;
            tokens[i] = (int32_t)((s >> 33) % (uint64_t)vocab);
        }
        const struct train_tokens batch = {.n = n, .length = length, .tokens = tokens};
        const double start = clock_seconds(), used = cpu_seconds();
        must(trainer_step(t, k + SKIP + 1, 1e-3, &batch, &r, &e), &e);
        if (k == -SKIP) first = r.loss;
        if (k < 0) continue;
        wall[k] = clock_seconds() - start;
        cpu[k] = cpu_seconds() - used;
    }
    const double w = median(wall, steps), c = median(cpu, steps), batch = (double)(n * length);
    printf("{\"parameters\": %lld, \"threads\": %d, \"tokens_per_s\": %.1f, "
           "\"tokens_per_cpu_s\": %.1f, \"cpu_s_step\": %.4f, \"cpu_best\": %.4f, "
           "\"loss\": [%.9g, %.9g], \"blas\": \"%s\"}\n",
           (long long)trainer_n(t), omp_get_max_threads(), batch / w, batch / c, c, cpu[0], first,
           r.loss, linalg_blas_name());
    trainer_close(t);
    free(wall), free(cpu), free(tokens);
    return MPI_Finalize();
}

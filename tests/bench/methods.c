/* Time of each method for one matrix, relative to rtn: statistics, preparation, quantizing; and of
 * methods that work at run time a sequence's outputs relative to a plain product.
 *   QTRAJ_BENCH_CPU=1 OMP_NUM_THREADS=1 build/release/bench_methods [ROWS COLS TOKENS]
 * default 2048 2048 512 */
#include "quant/quant.h"
#define noise layer_noise
#include "unit/quant/layer.h"
#undef noise
#include "bench.h"

enum { RUNS = 3 };

static double statistics_seconds(const struct layer *l, const struct quant_method *m)
{
    const int64_t offset[] = {0, l->input.tokens};
    const struct statistic_range all = {
        .x = l->x, .cols = l->cols, .offset = offset, .n = 1, .tokens = l->input.tokens};
    double start = bench_seconds();
    for (int k = 0; k < STATISTIC_N; k++)
        if (m->statistics & WANTS(k)) must(statistic_at(k)->add(l->sums[k], &all, NULL), NULL);
    return bench_seconds() - start;
}

/* Outputs for all tokens, relative to the product alone. */
static double apply_ratio(const struct layer *l, const struct quant_method *m, int64_t bits,
                          const struct quant_options *o)
{
    struct err e = {0};
    void *linear;
    const int64_t T = l->input.tokens;
    float *y = room(T * l->rows, sizeof *y);
    const struct quant_job job = {
        .bits = bits, .options = o, .rows = l->rows, .cols = l->cols, .w = l->w};
    must(m->make_linear(&job, T, &linear, &e), &e);
    double took = INFINITY, plain = INFINITY;
    for (int i = 0; i < RUNS; i++) {
        double a = bench_seconds();
        m->apply(linear, l->x, T, y, l->rows);
        double b = bench_seconds();
        mat_tiles(MAT_NT, y, l->rows, l->x, l->cols, l->w, l->cols, T, l->rows, l->cols, 0);
        took = fmin(took, b - a);
        plain = fmin(plain, bench_seconds() - b);
    }
    m->free_linear(linear);
    free(y);
    return took / plain;
}

static double method_seconds(const struct layer *l, const struct quant_method *m, int64_t bits,
                             const struct quant_options *o)
{
    double best = INFINITY;
    for (int i = 0; i < RUNS; i++) {
        struct quant_report r;
        struct err e = {0};
        float *q;
        double start = bench_seconds();
        must(layer_quantize(l, m, bits, o, &q, &r, &e), &e);
        best = fmin(best, bench_seconds() - start);
        free(q);
    }
    return best;
}

int main(int argc, char **argv)
{
    const int64_t rows = argc > 3 ? atoll(argv[1]) : 2048, cols = argc > 3 ? atoll(argv[2]) : 2048;
    struct quant_options o = options_make(128);
    double rtn = 0;
    linalg_setup();
    print_machine();
    struct layer l = layer_make(rows, cols, argc > 3 ? atoll(argv[3]) : 512);
    printf("%lld x %lld, %lld tokens; times relative to rtn\n", (long long)rows, (long long)cols,
           (long long)l.input.tokens);
    for (int i = 0; quant_at(i); i++) {
        const struct quant_method *m = quant_at(i);
        const int64_t bits = m->bits_min > 4 ? m->bits_min : 4;
        if (m->prepare_block) continue; /* they need the block's forward passes */
        const double seconds = method_seconds(&l, m, bits, &o);
        if (i == 0) rtn = seconds;
        printf("%-12s %8.1f ms %8.2f, statistics %6.2f", m->name, 1e3 * seconds, seconds / rtn,
               statistics_seconds(&l, m) / rtn);
        if (m->apply) printf(", outputs %.2f of a product", apply_ratio(&l, m, bits, &o));
        printf("\n");
    }
    layer_free(&l);
    return 0;
}

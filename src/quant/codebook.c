/* A codebook of 2^bits values for each row, without a grid: clusters of the row's weights, each
 * counted by its sensitivity, as SqueezeLLM proposes (Kim et al. 2024, arXiv 2306.07629, section
 * 4.1). Its sensitivities are the diagonal of the Fisher information of the whole model; here they
 * are those of the layer's own outputs, the mean squares of its inputs (the diagonal of GPTQ's
 * Hessian). The clusters are optimal (kmeans.h), where the authors start Lloyd's algorithm. */
#include "coding/kmeans.h"
#include "math/dtype.h"
#include "quant/job.h"
#include "util/mem.h"
#include "util/num.h"
#include <math.h>
#include <omp.h>

enum { CODEBOOK_BITS_MAX = 6 };

/* Channels without input count so much of the mean: what they become does not matter, but the
 * clusters stay defined. */
#define LEAST_SENSITIVITY 1e-9

static enum status codebook_prepare(const struct quant_input *in, const struct quant_options *o,
                                    void **out, struct err *e)
{
    const double *squares = in->statistic[STATISTIC_SQUARES];
    double mean = 0, *sensitivity;
    (void)o;
    PASS(mem_alloc(&sensitivity, in->cols, sizeof *sensitivity, "sensitivities of channels", e));
    for (int64_t j = 0; j < in->cols; j++) mean += squares[j] / (double)in->cols;
    *out = sensitivity;
    for (int64_t j = 0; j < in->cols; j++) {
        NEED(isfinite(squares[j]), ERR_NUMERIC, "the inputs of channel %lld are not finite",
             (long long)j);
        sensitivity[j] = mean > 0 ? fmax(squares[j], LEAST_SENSITIVITY * mean) : 1;
    }
    return OK;
}

/* --- rows --- */

/* Scratch of one thread. */
struct bench {
    struct kmeans *kmeans;
    struct kmeans_point *points; // (cols)
    double *centre;              // (cols)
};

static int by_value(const void *a, const void *b)
{
    const struct kmeans_point *p = a, *q = b;
    if (p->value != q->value) return p->value < q->value ? -1 : 1;
    return (p->at > q->at) - (p->at < q->at);
}

static void row_quantize(const struct quant_job *job, const void *benches, int64_t row,
                         void *scratch)
{
    const struct bench *b = (const struct bench *)benches + omp_get_thread_num();
    const int64_t n = job->cols;
    const float *w = job->w + row * n;
    float *q = job->q + row * n;
    const double *sensitivity = job->prepared;
    const bool f16 = job->options->scale_dtype != SCALE_F32;
    (void)scratch;
    for (int64_t j = 0; j < n; j++)
        b->points[j] = (struct kmeans_point){(double)w[j], sensitivity[j], j};
    qsort(b->points, (size_t)n, sizeof *b->points, by_value);
    kmeans_line(b->kmeans, b->points, n, (int64_t)1 << job->bits, b->centre);
    for (int64_t j = 0; j < n; j++) {
        const float value = (float)b->centre[j];
        q[b->points[j].at] = f16 ? dtype_round_f16(value) : value;
    }
}

static enum status bench_open(struct bench *b, const struct quant_job *job, struct err *e)
{
    PASS(mem_alloc(&b->points, job->cols, sizeof *b->points, "weights of a row", e));
    PASS(mem_alloc(&b->centre, job->cols, sizeof *b->centre, "weights of a row", e));
    return kmeans_open(job->cols, (int64_t)1 << job->bits, &b->kmeans, e);
}

static enum status codebook_run(const struct quant_job *job, struct quant_report *report,
                                struct err *e)
{
    enum status st = OK;
    const int threads = omp_get_max_threads();
    const double table = 16 * (double)(1 << job->bits); /* a row's values in 16 bits */
    struct bench *benches = NULL;
    enum status made = mem_zero(&benches, threads, sizeof *benches, "scratch of threads", e);
    for (int i = 0; i < threads && made == OK; i++) made = bench_open(&benches[i], job, e);
    TRY(team_agree(job->team, made, e));
    TRY(job_rows(job, 1, row_quantize, benches, 1, e));
    TRY(job_report(job, (double)job->bits + table / (double)job->cols, report, e));
done:
    for (int i = 0; i < threads && benches; i++) {
        kmeans_free(benches[i].kmeans);
        free(benches[i].points);
        free(benches[i].centre);
    }
    free(benches);
    return st;
}

/* --- plans --- */

static void codebook_memory(const struct quant_options *o, const struct quant_extent *x,
                            struct quant_memory *out)
{
    const int64_t point = sizeof(struct kmeans_point) + sizeof(double);
    (void)o;
    out->prepared = x->cols * (int64_t)sizeof(double);
    out->running = x->threads * (x->cols * point + kmeans_bytes(x->cols, 1 << CODEBOOK_BITS_MAX));
}

static void codebook_cost(const struct quant_options *o, int64_t rows, int64_t cols,
                          struct quant_cost *out)
{
    /* Per weight, to match the measured time: clusters * log2(cols) steps of the table. */
    enum { FLOP_STEP = 8, CLUSTERS = 16 };
    (void)o;
    out->run = (double)rows * (double)cols * FLOP_STEP * CLUSTERS * log2((double)cols + 1);
}

const struct quant_method quant_codebook = {
    .name = "codebook",
    .doc = "a table of 2^bits values for each row: optimal clusters of its weights, counted by the "
           "mean squares of their inputs (SqueezeLLM's dense part)",
    .bits_min = QUANT_BITS_MIN,
    .bits_max = CODEBOOK_BITS_MAX,
    .results = QUANT_ROWS_ALONE | QUANT_ZERO_IS_ZERO,
    .options = "hessian true_sequential scale_dtype",
    .statistics = WANTS(STATISTIC_SQUARES),
    .prepare = codebook_prepare,
    .prepare_options = "hessian true_sequential",
    .release = free,
    .run = codebook_run,
    .memory = codebook_memory,
    .cost = codebook_cost,
};

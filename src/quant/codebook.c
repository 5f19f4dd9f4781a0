/* A codebook of 2^bits values for each row, without a grid: clusters of the row's weights, each
 * counted by its sensitivity, as SqueezeLLM proposes (Kim et al. 2024, arXiv 2306.07629, section
 * 4.1). Its sensitivities are the diagonal of the Fisher information of the whole model; here they
 * are those of the layer's own outputs, the mean squares of its inputs (the diagonal of GPTQ's
 * Hessian). The clusters are optimal (kmeans.h), where the authors start Lloyd's algorithm.
 * Outliers (section 4.2) are kept in 16 bits, and the table serves the other weights. */
#include "coding/kmeans.h"
#include "math/dtype.h"
#include "quant/job.h"
#include "util/mem.h"
#include "util/num.h"
#include <math.h>
#include <omp.h>
#include <string.h>

enum { CODEBOOK_BITS_MAX = 6 };

struct codebook_options {
    double sparse, sensitive; /* percent of the weights of a matrix */
};

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

/* --- outliers --- */

/* Weights are kept whose magnitude, or that times the root of their sensitivity, is above. */
struct kept {
    float magnitude, sensitive;
};

static float weighted(const struct quant_job *job, int64_t i)
{
    const double *sensitivity = job->prepared;
    return (float)(sqrt(sensitivity[i % job->cols]) * fabs((double)job->w[i]));
}

static bool is_kept(const struct quant_job *job, const struct kept *k, int64_t i)
{
    return fabsf(job->w[i]) > k->magnitude || weighted(job, i) > k->sensitive;
}

/* Weights of the whole matrix, which every rank has. */
static int64_t count_kept(const struct quant_job *job, const struct kept *k)
{
    int64_t n = 0;
#pragma omp parallel for reduction(+ : n) schedule(static)
    for (int64_t i = 0; i < job->rows * job->cols; i++) n += is_kept(job, k, i);
    return n;
}

/* *bound, a member of k, = the least number that at most so many percent are above. Numbers from 0
 * to infinity have the order of their bits. */
static void bound_find(const struct quant_job *job, struct kept *k, float *bound, double percent)
{
    const int64_t most = (int64_t)(percent / 100 * (double)(job->rows * job->cols));
    const float infinite = INFINITY;
    uint32_t low = 0, high;
    memcpy(&high, &infinite, sizeof high);
    while (percent > 0 && low < high) {
        const uint32_t middle = low + (high - low) / 2;
        memcpy(bound, &middle, sizeof middle);
        if (count_kept(job, k) > most)
            low = middle + 1;
        else
            high = middle;
    }
    memcpy(bound, &high, sizeof high);
}

static struct kept kept_find(const struct quant_job *job)
{
    const struct codebook_options *own = quant_own(job->options, METHOD_codebook);
    struct kept a = {INFINITY, INFINITY}, b = a;
    bound_find(job, &a, &a.magnitude, own->sparse);
    bound_find(job, &b, &b.sensitive, own->sensitive);
    return (struct kept){a.magnitude, b.sensitive};
}

/* --- rows --- */

/* Scratch of one thread. */
struct bench {
    struct kmeans *kmeans;
    struct kmeans_point *points; // (cols)
    double *centre;              // (cols)
};

struct benches {
    struct kept kept;
    struct bench *bench; // (threads)
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
    const struct benches *all = benches;
    const struct bench *b = all->bench + omp_get_thread_num();
    const int64_t first = row * job->cols;
    const double *sensitivity = job->prepared;
    const bool f16 = job->options->scale_dtype != SCALE_F32;
    int64_t n = 0;
    (void)scratch;
    for (int64_t j = 0; j < job->cols; j++) {
        const float w = job->w[first + j];
        if (is_kept(job, &all->kept, first + j))
            job->q[first + j] = dtype_round_f16(w);
        else
            b->points[n++] = (struct kmeans_point){(double)w, sensitivity[j], j};
    }
    if (n == 0) return;
    qsort(b->points, (size_t)n, sizeof *b->points, by_value);
    kmeans_line(b->kmeans, b->points, n, (int64_t)1 << job->bits, b->centre);
    for (int64_t j = 0; j < n; j++) {
        const float value = (float)b->centre[j];
        job->q[first + b->points[j].at] = f16 ? dtype_round_f16(value) : value;
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
    const struct codebook_options *own = quant_own(job->options, METHOD_codebook);
    const double rows = (double)job->rows, cols = (double)job->cols;
    double bits = (double)job->bits + 16 * (double)(1 << job->bits) / cols; /* codes, table */
    struct benches all = {.kept = kept_find(job)};
    enum status made = mem_zero(&all.bench, threads, sizeof *all.bench, "scratch of threads", e);
    for (int i = 0; i < threads && made == OK; i++) made = bench_open(&all.bench[i], job, e);
    TRY(team_agree(job->team, made, e));
    TRY(job_rows(job, 1, row_quantize, &all, 1, e));
    if (own->sparse > 0 || own->sensitive > 0) /* an f16 and its column; the starts of rows */
        bits += ((16 + 32) * (double)count_kept(job, &all.kept) + 32 * (rows + 1)) / (rows * cols);
    TRY(job_report(job, bits, report, e));
done:
    for (int i = 0; i < threads && all.bench; i++) {
        kmeans_free(all.bench[i].kmeans);
        free(all.bench[i].points);
        free(all.bench[i].centre);
    }
    free(all.bench);
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

static const struct option own_options[] = {
    OPTION(codebook_options, sparse, REAL,
           "codebook: weights of a matrix with the largest magnitudes, kept in 16 bits",
           .unit = "percent", .fallback = "0", .minimum = 0, .maximum = 50, .later = true),
    OPTION(codebook_options, sensitive, REAL,
           "codebook: weights kept because their squares times the mean squares of their inputs "
           "are largest",
           .unit = "percent", .fallback = "0", .minimum = 0, .maximum = 50, .later = true),
};

const struct quant_method quant_codebook = {
    .name = "codebook",
    .doc = "a table of 2^bits values for each row: optimal clusters of its weights, counted by the "
           "mean squares of their inputs (SqueezeLLM); outliers may be kept",
    .bits_min = QUANT_BITS_MIN,
    .bits_max = CODEBOOK_BITS_MAX,
    .results = QUANT_ROWS_ALONE | QUANT_ZERO_IS_ZERO, /* alone: without outliers */
    .options = "hessian true_sequential scale_dtype",
    .own = {OPTION_ROWS(own_options, codebook_options)},
    .statistics = WANTS(STATISTIC_SQUARES),
    .prepare = codebook_prepare,
    .prepare_options = "hessian true_sequential",
    .release = free,
    .run = codebook_run,
    .memory = codebook_memory,
    .cost = codebook_cost,
};

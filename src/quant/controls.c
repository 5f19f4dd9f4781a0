/* noise, permuted, flipped: changes of the weights for comparison. Each has the norm of the change
 * that another method makes to the tensor (change_of), but not its directions. If the added loss
 * follows that method's, it comes from how curved the loss is; if not, from the directions.
 *
 * All random numbers follow from change_seed, the replicate, the block and the linear. */
#include "coding/tile.h"
#include "quant/gptq.h"
#include "quant/job.h"
#include "util/mem.h"
#include "util/rng.h"
#include <math.h>

enum {
    BITS_STORED = 32,  /* of a weight: the results are on no grid */
    REPLICATE_BIT = 40 /* indices of the streams of replicates are so far apart */
};

static uint64_t stream_of(const struct quant_job *job)
{
    const uint64_t place = (uint64_t)(job->layer * 100 + job->linear);
    return rng_stream((uint64_t)job->options->change_seed,
                      ((uint64_t)job->replicate + 1) << REPLICATE_BIT | place);
}

/* A row of q <- w + (q - w) in another order: Fisher and Yates' shuffle. */
static void row_permute(const struct quant_job *job, const void *stream, int64_t row, void *scratch)
{
    const int64_t n = job->cols, first = row * n;
    const float *w = job->w + first;
    float *q = job->q + first;
    double *d = scratch;
    for (int64_t j = 0; j < n; j++) d[j] = (double)q[j] - (double)w[j];
    for (int64_t j = n - 1; j > 0; j--) {
        const uint64_t random = rng_bits(*(const uint64_t *)stream, (uint64_t)(first + j)) >> 32;
        const int64_t k = (int64_t)(random * (uint64_t)(j + 1) >> 32);
        const double t = d[j];
        d[j] = d[k];
        d[k] = t;
    }
    for (int64_t j = 0; j < n; j++) q[j] = (float)((double)w[j] + d[j]);
}

/* A row of q <- w ± (q - w). */
static void row_flip(const struct quant_job *job, const void *stream, int64_t row, void *scratch)
{
    const int64_t n = job->cols, first = row * n;
    const float *w = job->w + first;
    float *q = job->q + first, *sign = scratch;
    rng_signs(*(const uint64_t *)stream, first, n, sign);
    for (int64_t j = 0; j < n; j++)
        q[j] = (float)((double)w[j] + (double)sign[j] * ((double)q[j] - (double)w[j]));
}

/* This rank's rows of job->q <- w + noise whose squares sum to `squared` over the whole tensor. */
static enum status add_noise(const struct quant_job *job, double squared, uint64_t stream,
                             struct err *e)
{
    AUTO_FREE double *sums = NULL;
    double sum = 0;
    const int64_t n = job->cols;
    int64_t first, end;
    team_own_rows(job->team, job->rows, &first, &end);
    enum status st = mem_zero(&sums, job->rows, sizeof *sums, "squares of rows", e);
    PASS(team_agree(job->team, st, e));
#pragma omp parallel for
    for (int64_t i = first; i < end; i++) {
        rng_normals(stream, i * n, n, job->q + i * n);
        sums[i] = row_squares(job->q + i * n, n);
    }
    PASS(team_gather(job->team, sums, 1, 1, job->rows, e));
    for (int64_t i = 0; i < job->rows; i++) sum += sums[i];
    const double scale = sum > 0 ? sqrt(squared / sum) : 0;
#pragma omp parallel for
    for (int64_t i = first; i < end; i++)
        for (int64_t k = i * n; k < (i + 1) * n; k++)
            job->q[k] = (float)((double)job->w[k] + scale * (double)job->q[k]);
    return OK;
}

enum change { CHANGE_noise, CHANGE_permuted, CHANGE_flipped };

static enum status change_run(const struct quant_job *job, enum change kind,
                              struct quant_report *report, struct err *e)
{
    const bool gptq = job->options->change_of == CHANGE_GPTQ;
    const uint64_t stream = stream_of(job);
    PASS((gptq ? quant_gptq.run : quant_rtn.run)(job, report, e));
    const int64_t bytes = job->cols * (int64_t)sizeof(double);
    if (kind == CHANGE_noise) PASS(add_noise(job, report->squared_distance, stream, e));
    if (kind == CHANGE_permuted) PASS(job_rows(job, 1, row_permute, &stream, bytes, e));
    if (kind == CHANGE_flipped) PASS(job_rows(job, 1, row_flip, &stream, bytes, e));
    return job_report(job, BITS_STORED, report, e);
}

static void change_memory(const struct quant_options *o, const struct quant_extent *x,
                          struct quant_memory *out)
{
    quant_gptq.memory(o, x, out);
    out->running += (x->threads * x->cols + x->rows) * (int64_t)sizeof(double);
}

/* Beside GPTQ: about thirty operations a weight, of which most make its random number. */
static void change_cost(const struct quant_options *o, int64_t rows, int64_t cols,
                        struct quant_cost *out)
{
    quant_gptq.cost(o, rows, cols, out);
    out->run += 30.0 * (double)rows * (double)cols;
}

/* With GPTQ's preparation, whose results also serve round to nearest. */
#define CHANGE(method, words, of_zeros)                                                            \
    static enum status method##_run(const struct quant_job *job, struct quant_report *report,      \
                                    struct err *e)                                                 \
    {                                                                                              \
        return change_run(job, CHANGE_##method, report, e);                                        \
    }                                                                                              \
    const struct quant_method quant_##method = {                                                   \
        .name = #method,                                                                           \
        .doc = words,                                                                              \
        .bits_min = QUANT_BITS_MIN,                                                                \
        .bits_max = QUANT_BITS_MAX,                                                                \
        .results = QUANT_IMITATES | (of_zeros),                                                    \
        .options = "group_size symmetric range_search scale_dtype true_sequential hessian "        \
                   "change_of change_seed " GPTQ_OPTIONS,                                          \
        .check = gptq_check,                                                                       \
        .statistics = WANTS(STATISTIC_GRAM),                                                       \
        .distributed = true,                                                                       \
        .prepare_options = "group_size " GPTQ_OPTIONS,                                             \
        .prepare = gptq_prepare,                                                                   \
        .share = gptq_share,                                                                       \
        .release = gptq_release,                                                                   \
        .run = method##_run,                                                                       \
        .memory = change_memory,                                                                   \
        .cost = change_cost,                                                                       \
    };

CHANGE(noise, "Gaussian noise with the norm of another method's change of each tensor", 0)
CHANGE(permuted, "another method's change of the weights, permuted within each row", 0)
CHANGE(flipped, "another method's change of the weights, with random signs", QUANT_ZERO_IS_ZERO)

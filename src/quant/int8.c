/* LLM.int8() (Dettmers et al. 2022, arXiv 2208.07339), as bitsandbytes 0.50 has it
 * (backends/default/ops.py, int8_vectorwise_quant and int8_mixed_scaled_mm): weights and inputs in
 * 8 bits with a scale for each row and each token, but channels with a large input in full
 * precision. int8_weight: its weights alone. */
#include "activation/int8_linear.h"
#include "math/dtype.h"
#include "quant/job.h"
#include <math.h>

struct int8_options {
    double threshold;
};

/* The package's constant; 1 / 127^2 is 1.8e-5 of itself below it. */
#define UNIT 6.200124e-5f

/* int8_format.round. */
static float round_codes(float *x, int64_t n, float most)
{
    const float inverse = 1 / most * INT8_MOST; /* how torch divides a number by a tensor */
    for (int64_t j = 0; j < n; j++) x[j] = most > 0 ? nearbyintf(x[j] * inverse) : 0;
    return most;
}

static void row_round(const struct quant_job *job, const void *none, int64_t row, void *scratch)
{
    const int64_t n = job->cols;
    float *q = job->q + row * n;
    (void)none, (void)scratch;
    for (int64_t j = 0; j < n; j++) q[j] = dtype_round_f16(job->w[row * n + j]);
    const float most = round_codes(q, n, row_largest(q, n));
    for (int64_t j = 0; j < n; j++) q[j] = q[j] * most / INT8_MOST;
}

static enum status run(const struct quant_job *job, struct quant_report *report, struct err *e)
{
    PASS(job_rows(job, 1, row_round, NULL, 1, e));
    return job_report(job, 8 + 32 / (double)job->cols, report, e);
}

const struct quant_method quant_int8_weight = {
    .name = "int8_weight",
    .doc =
        "the 8-bit weights of LLM.int8(), one scale for each row; activations are not quantized; "
        "no calibration",
    .bits_min = 8,
    .bits_max = 8,
    .results = QUANT_ROWS_ALONE | QUANT_ZERO_IS_ZERO,
    .options = "",
    .run = run,
    .flop = 75,
};

static enum status make_linear(const struct quant_job *job, int64_t longest, void **out,
                               struct err *e)
{
    const struct int8_options *own = quant_own(job->options, METHOD_int8);
    const struct int8_format format = {
        .round = round_codes,
        .unit = UNIT,
        .threshold = own->threshold > 0 ? (float)own->threshold : INFINITY,
        .half = true,
    };
    return int8_linear_make(job->w, job->rows, job->cols, &format, NULL, longest, out, e);
}

static void memory(const struct quant_options *o, const struct quant_extent *x,
                   struct quant_memory *out)
{
    const struct int8_options *own = quant_own(o, METHOD_int8);
    const struct int8_extent own_x = {x->cols, x->rows, x->all_rows, x->longest, x->threads};
    out->linears = int8_linear_bytes(&own_x, own->threshold > 0);
}

static const struct option own_options[] = {
    OPTION_AT("outlier_threshold", int8_options, threshold, REAL,
              "int8: channels with an input of at least this magnitude in a sequence are computed "
              "in full precision (0: none)",
              .fallback = "6", .minimum = 0, .maximum = HUGE_VAL),
};

const struct quant_method quant_int8 = {
    .name = "int8",
    .doc = "LLM.int8(): 8-bit weights and activations, outlier channels in full precision; no "
           "calibration",
    .bits_min = 8,
    .bits_max = 8,
    .results = QUANT_ROWS_ALONE | QUANT_ZERO_IS_ZERO,
    .options = "",
    .own = {OPTION_ROWS(own_options, int8_options)},
    .run = run,
    .make_linear = make_linear,
    .apply = int8_linear_apply,
    .free_linear = int8_linear_free,
    .memory = memory,
    .flop = 75,
};

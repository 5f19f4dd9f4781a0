/* The weights of LLM.int8() (Dettmers et al. 2022) without its activations, as bitsandbytes 0.50
 * has them (backends/default/ops.py, int8_vectorwise_quant): cast to f16, then 8 bits with the
 * largest magnitude of each row as scale. */
#include "quant/blocks.h"
#include "quant/report.h"
#include "tensor/dtype.h"
#include <math.h>

enum { CODE_MAX = 127 };

static void row_round(const float *w, float *q, int64_t n, float unused)
{
    (void)unused;
    for (int64_t j = 0; j < n; j++) q[j] = dtype_round_f16(w[j]);
    const float most = blocks_largest(q, n);
    const float inverse = 1 / most * CODE_MAX; /* how torch divides a number by a tensor */
    for (int64_t j = 0; j < n; j++)
        q[j] = most > 0 ? nearbyintf(q[j] * inverse) * most / CODE_MAX : 0;
}

static enum status run(const struct quant_job *job, struct quant_report *report, struct err *e)
{
    PASS(team_agree(job->team, job_check(job, e), e));
    blocks_round(job, job->cols, row_round, 0);
    return job_report(job, 8 + 32 / (double)job->cols, report, e);
}

static void cost(const struct quant_options *o, int64_t rows, int64_t cols, struct quant_cost *out)
{
    enum { FLOP = 75 }; /* per weight, to match the measured time */
    (void)o;
    out->run = (double)rows * (double)cols * FLOP;
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
    .cost = cost,
};

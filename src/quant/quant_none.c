/* Weights as they are, for variants that quantize only what the model computes (activation.h). It
 * is in no list of methods. */
#include "quant/blocks.h"
#include "quant/report.h"
#include <string.h>

static void copy(const float *w, float *q, int64_t n, float unused)
{
    (void)unused;
    memcpy(q, w, (size_t)n * sizeof *q);
}

static enum status run(const struct quant_job *job, struct quant_report *report, struct err *e)
{
    PASS(team_agree(job->team, job_check(job, e), e));
    blocks_round(job, job->cols, copy, 0);
    return job_report(job, QUANT_BITS_FULL, report, e);
}

const struct quant_method quant_none = {
    .name = "none",
    .doc = "the checkpoint's own weights",
    .bits_min = QUANT_BITS_FULL,
    .bits_max = QUANT_BITS_FULL,
    .options = "",
    .run = run,
    .flop = 1,
};

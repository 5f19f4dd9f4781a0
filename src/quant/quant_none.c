/* Weights as they are, for variants that quantize only what the model computes (activation.h). It
 * is in no list of methods. */
#include "quant/job.h"
#include <string.h>

static void row_copy(const struct quant_job *job, const void *none, int64_t row, void *scratch)
{
    (void)none, (void)scratch;
    memcpy(job->q + row * job->cols, job->w + row * job->cols, (size_t)job->cols * sizeof *job->q);
}

static enum status run(const struct quant_job *job, struct quant_report *report, struct err *e)
{
    PASS(job_rows(job, 1, row_copy, NULL, 1, e));
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

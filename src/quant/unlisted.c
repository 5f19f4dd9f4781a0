/* Methods of no list: none, the weights as they are, for variants that quantize only what the model
 * computes (activation.h), and stored, a checkpoint that another program has quantized and the
 * engine reads (engine/stored.h). */
#include "quant/job.h"
#include <string.h>

static void row_copy(const struct quant_job *job, const void *none, int64_t row, void *scratch)
{
    (void)none, (void)scratch;
    memcpy(job->q + row * job->cols, job->w + row * job->cols, (size_t)job->cols * sizeof *job->q);
}

static enum status none_run(const struct quant_job *job, struct quant_report *report, struct err *e)
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
    .run = none_run,
    .flop = 1,
};

static enum status stored_run(const struct quant_job *job, struct quant_report *report,
                              struct err *e)
{
    (void)job, (void)report;
    RAISE(ERR_USAGE, "stored: a sweep measures such a checkpoint, and nothing else can");
}

/* Its block, beside the checkpoint's; the widest stage has about half of a block's weights. */
static void memory(const struct quant_options *o, const struct quant_extent *x,
                   struct quant_memory *out)
{
    (void)o;
    out->running = 2 * x->all_rows * x->cols * (int64_t)sizeof(float);
}

const struct quant_method quant_stored = {
    .name = "stored",
    .doc = "a checkpoint that another program has quantized",
    .bits_min = QUANT_BITS_MIN,
    .bits_max = QUANT_BITS_MAX,
    .options = "",
    .run = stored_run,
    .memory = memory,
};

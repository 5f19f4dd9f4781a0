/* A checkpoint that another program has quantized, as an entry of a sweep's methods: the engine
 * reads it (engine/stored.h). It is in no list of methods, and quantizes nothing. */
#include "quant/quant.h"

static enum status run(const struct quant_job *job, struct quant_report *report, struct err *e)
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
    .run = run,
    .memory = memory,
};

/* Entries of `export`: which cells are written as models, and where to. */
#include "config/sweep.h"
#include "util/mem.h"

static const struct option keys[] = {
    OPTION(export_entry, out, PATH,
           "folder of the models, each OUT/MODEL/CHECKPOINT/QUANTIZER-BITSbit", .required = true),
    OPTION(export_entry, format, TEXT,
           "form of the weights: dequantized (f32), gptq, awq, compressed-tensors "
           "(docs/export.md)",
           .otherwise = "dequantized"),
    OPTION(export_entry, model, TEXT, "shell pattern of the trajectories in `models`",
           .otherwise = "all"),
    OPTION(export_entry, checkpoint, TEXT, "shell pattern of the checkpoints (no averages)",
           .otherwise = "all"),
    OPTION(export_entry, quantizer, TEXT, "shell pattern of the names in `methods`",
           .otherwise = "all"),
    OPTION(export_entry, bits, INT, "bit-width of the cells", .unit = "bits", .fallback = "0",
           .otherwise = "all", .low = QUANT_BITS_MIN, .high = QUANT_BITS_MAX,
           OPTION_SPECIAL(0, NULL)),
};

static enum status finish(void *entry, const struct option_scope *scope, struct err *e)
{
    struct export_entry *x = entry;
    (void)scope;
    return x->format ? OK : mem_string(&x->format, "dequantized", e);
}

const struct option_table export_table = {OPTION_ROWS(keys, export_entry), .finish = finish};

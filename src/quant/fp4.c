/* FP4 as bitsandbytes 0.50 has it (functional.get_4bit_type, csrc/kernels.cu, dQuantizeFP4):
 * magnitudes 0, 0.0625, 2, 3, 4, 6, 8 and 12, divided by 12. */
#include "quant/absmax.h"

static const struct codes table = {
    .n = 8,
    .sign = true,
    .value = {0, 0.0625f / 12, 2.0f / 12, 3.0f / 12, 4.0f / 12, 6.0f / 12, 8.0f / 12, 1},
    .threshold = {0.00260417f, 0.0859375f, 0.20833333f, 0.29166667f, 0.4166667f, 0.583333f,
                  0.8333333f},
};

static enum status run(const struct quant_job *job, struct quant_report *report, struct err *e)
{
    return absmax_run(&table, job, report, e);
}

const struct quant_method quant_fp4 = {
    .name = "fp4",
    .doc = "4-bit floats of bitsandbytes, scaled by the largest weight of a block; no calibration",
    .bits_min = 4,
    .bits_max = 4,
    .results = QUANT_ZERO_IS_ZERO,
    .options = "absmax_block double_quant",
    .run = run,
    .memory = absmax_memory,
    .flop = ABSMAX_FLOP,
};

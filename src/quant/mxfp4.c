/* MXFP4 (OCP Microscaling Formats Specification v1.0, 2023): blocks of 32 weights of a row, a
 * power-of-two scale (E8M0) for each and E2M1 codes: rounding with codes of that name. */
#include "quant/quant.h"

static enum status run(const struct quant_job *job, struct quant_report *report, struct err *e)
{
    struct quant_options options = *job->options;
    struct quant_job inner = *job;
    inner.options = &options;
    options.codes = CODES_MXFP4;
    options.group_size = 32;
    return quant_rtn.run(&inner, report, e);
}

const struct quant_method quant_mxfp4 = {
    .name = "mxfp4",
    .doc = "OCP microscaling: 4-bit floats (E2M1) with a power of two as the scale of 32 weights; "
           "no calibration",
    .bits_min = 4,
    .bits_max = 4,
    .results = QUANT_ROWS_ALONE | QUANT_ZERO_IS_ZERO,
    .options = "",
    .run = run,
    .flop = 70,
};

/* MXFP4 (OCP Microscaling Formats Specification v1.0, 2023): blocks of 32 weights of a row, a
 * power-of-two scale (E8M0) for each and E2M1 codes. The scale is that of section 6.3: the largest
 * power of two up to the largest magnitude, over that of the format, 4. */
#include "quant/blocks.h"
#include "quant/codes.h"
#include "quant/report.h"
#include <math.h>

enum { BLOCK = 32, SCALE_BITS = 8, EXPONENT_MIN = -127, EMAX = 2 };

static void block_round(const float *w, float *q, int64_t n, float unused)
{
    (void)unused;
    const float most = blocks_largest(w, n);
    const int exponent = most > 0 ? ilogbf(most) - EMAX : EXPONENT_MIN;
    const float scale = ldexpf(1, exponent > EXPONENT_MIN ? exponent : EXPONENT_MIN);
    for (int64_t j = 0; j < n; j++) q[j] = codes_value(&codes_e2m1, w[j] / scale) * scale;
}

static enum status run(const struct quant_job *job, struct quant_report *report, struct err *e)
{
    const double blocks = (double)((job->cols + BLOCK - 1) / BLOCK);
    PASS(team_agree(job->team, job_check(job, e), e));
    blocks_round(job, BLOCK, block_round, 0);
    return job_report(job, 4 + SCALE_BITS * blocks / (double)job->cols, report, e);
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

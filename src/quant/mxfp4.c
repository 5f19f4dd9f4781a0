/* MXFP4 (OCP Microscaling Formats Specification v1.0, 2023): blocks of 32 weights of a row, a
 * power-of-two scale (E8M0) for each and E2M1 codes. The scale is that of section 6.3: the largest
 * power of two up to the largest magnitude, over that of the format, 4. */
#include "quant/codes.h"
#include "quant/quant.h"
#include "quant/report.h"
#include "util/num.h"
#include <math.h>

enum { BLOCK = 32, SCALE_BITS = 8, EXPONENT_MIN = -127, EMAX = 2 };

static void block_round(const float *w, float *q, int64_t n)
{
    float most = 0;
    for (int64_t j = 0; j < n; j++) most = fmaxf(most, fabsf(w[j]));
    const int exponent = most > 0 ? ilogbf(most) - EMAX : EXPONENT_MIN;
    const float scale = ldexpf(1, exponent > EXPONENT_MIN ? exponent : EXPONENT_MIN);
    for (int64_t j = 0; j < n; j++) q[j] = codes_value(&codes_e2m1, w[j] / scale) * scale;
}

static enum status run(const struct quant_job *job, struct quant_report *report, struct err *e)
{
    int64_t first, end;
    const int64_t cols = job->cols;
    team_own_rows(job->team, job->rows, &first, &end);
    PASS(team_agree(job->team, job_check(job, e), e));
#pragma omp parallel for
    for (int64_t i = first; i < end; i++)
        for (int64_t a = 0; a < cols; a += BLOCK)
            block_round(job->w + i * cols + a, job->q + i * cols + a, min64(BLOCK, cols - a));
    const double blocks = (double)((cols + BLOCK - 1) / BLOCK);
    return job_report(job, 4 + SCALE_BITS * blocks / (double)cols, report, e);
}

static void cost(const struct quant_options *o, int64_t rows, int64_t cols, struct quant_cost *out)
{
    enum { FLOP = 70 }; /* per weight, to match the measured time */
    (void)o;
    out->run = (double)rows * (double)cols * FLOP;
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
    .cost = cost,
};

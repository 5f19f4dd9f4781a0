/* 4-bit floats (E2M1). mxfp4 (OCP Microscaling Formats Specification v1.0, 2023): a power-of-two
 * scale (E8M0) for 32 weights of a row, as rtn with codes of that name. nvfp4: an E4M3 scale for 16
 * weights and one f32 scale for the matrix, with which the largest block scale is the largest E4M3
 * number, in the arithmetic and order of operations of torchao 0.18 (nvfp4_tensor.py:
 * per_tensor_amax_to_scale, nvfp4_quantize). */
#include "coding/floats.h"
#include "quant/grids.h"
#include "quant/job.h"
#include "util/mem.h"
#include "util/num.h"
#include <math.h>

static enum status mxfp4_run(const struct quant_job *job, struct quant_report *report,
                             struct err *e)
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
    .run = mxfp4_run,
    .flop = 70,
};

enum { BLOCK = 16, SCALE_BITS = 8 };
static const float E2M1_MAX = 6, E4M3_MAX = 448, E4M3_MIN = 0x1p-6f; /* the smallest normal one */

/* whole: the scale of the matrix, above 0 */
static void row_round(const struct quant_job *job, const void *whole, int64_t row, void *scratch)
{
    const float of_matrix = *(const float *)whole;
    (void)scratch;
    for (int64_t a = 0; a < job->cols; a += BLOCK) {
        const int64_t n = min64(BLOCK, job->cols - a), at = row * job->cols + a;
        const float wanted = row_largest(job->w + at, n) / E2M1_MAX / of_matrix;
        const float scale = float_nearest(fmaxf(wanted, E4M3_MIN), 3, E4M3_MIN, E4M3_MAX);
        const float inverse = 1 / of_matrix / scale, back = of_matrix * scale;
        for (int64_t j = at; j < at + n; j++)
            job->q[j] = float_nearest(job->w[j] * inverse, 1, 1, E2M1_MAX) * back;
    }
}

static enum status nvfp4_run(const struct quant_job *all, struct quant_report *report,
                             struct err *e)
{
    struct quant_options options = *all->options;
    struct quant_job job = *all;
    AUTO_FREE double *largest = NULL;
    job.options = &options;
    options.codes = CODES_NVFP4;
    PASS(grid_share(&job, &largest, e));
    const float whole = fmaxf((float)*largest / (E4M3_MAX * E2M1_MAX), 0x1p-100f);
    PASS(job_rows(&job, 1, row_round, &whole, 1, e));
    const double blocks = (double)((job.cols + BLOCK - 1) / BLOCK), row = (double)job.cols;
    return job_report(&job, 4 + (SCALE_BITS * blocks + 32 / (double)job.rows) / row, report, e);
}

const struct quant_method quant_nvfp4 = {
    .name = "nvfp4",
    .doc = "4-bit floats (E2M1) with an 8-bit float as the scale of 16 weights and a scale for the "
           "matrix; no calibration",
    .bits_min = 4,
    .bits_max = 4,
    .results = QUANT_ZERO_IS_ZERO,
    .options = "",
    .run = nvfp4_run,
    .flop = 90,
};

/* NVFP4: blocks of 16 weights of a row with E2M1 codes, an E4M3 scale for each block, and one f32
 * scale for the matrix, with which the largest block scale is the largest E4M3 number. Arithmetic
 * and order of operations of torchao 0.18 (nvfp4_tensor.py: per_tensor_amax_to_scale,
 * nvfp4_quantize). */
#include "coding/floats.h"
#include "coding/tile.h"
#include "quant/blocks.h"
#include "quant/report.h"
#include "util/mem.h"
#include "util/num.h"
#include <math.h>
#include <stdlib.h>

enum { BLOCK = 16, SCALE_BITS = 8 };
static const float E2M1_MAX = 6, E4M3_MAX = 448, E4M3_MIN = 0x1p-6f; /* the smallest normal one */

/* whole: the scale of the matrix, above 0 */
static void block_round(const float *w, float *q, int64_t n, float whole)
{
    const float wanted = blocks_largest(w, n) / E2M1_MAX / whole;
    const float scale = float_nearest(fmaxf(wanted, E4M3_MIN), 3, E4M3_MIN, E4M3_MAX);
    const float inverse = 1 / whole / scale, back = whole * scale;
    for (int64_t j = 0; j < n; j++) q[j] = float_nearest(w[j] * inverse, 1, 1, E2M1_MAX) * back;
}

/* The largest magnitude of the whole matrix. Collective. */
static enum status matrix_largest(const struct quant_job *job, double *tiles, float *out,
                                  struct err *e)
{
    int64_t first, end;
    team_own_rows(job->team, job->rows, &first, &end);
#pragma omp parallel for
    for (int64_t t = first / TILE_ROWS; t < tile_count(end); t++) {
        const int64_t row = t * TILE_ROWS, rows = min64(TILE_ROWS, job->rows - row);
        tiles[t] = (double)blocks_largest(job->w + row * job->cols, rows * job->cols);
    }
    PASS(team_gather(job->team, tiles, 1, TILE_ROWS, job->rows, e));
    *out = 0;
    for (int64_t t = 0; t < tile_count(job->rows); t++) *out = fmaxf(*out, (float)tiles[t]);
    return OK;
}

static enum status open(const struct quant_job *job, double **tiles, struct err *e)
{
    PASS(job_check(job, e));
    return mem_zero(tiles, tile_count(job->rows), sizeof **tiles, "largest weights of tiles", e);
}

static enum status run(const struct quant_job *job, struct quant_report *report, struct err *e)
{
    enum status st = OK;
    double *tiles = NULL;
    float most;
    TRY(team_agree(job->team, open(job, &tiles, e), e));
    TRY(matrix_largest(job, tiles, &most, e));
    const float whole = fmaxf(most / (E4M3_MAX * E2M1_MAX), 0x1p-100f);
    blocks_round(job, BLOCK, block_round, whole);
    const double blocks = (double)((job->cols + BLOCK - 1) / BLOCK), row = (double)job->cols;
    TRY(job_report(job, 4 + (SCALE_BITS * blocks + 32 / (double)job->rows) / row, report, e));
done:
    free(tiles);
    return st;
}

const struct quant_method quant_nvfp4 = {
    .name = "nvfp4",
    .doc = "4-bit floats (E2M1) with an 8-bit float as the scale of 16 weights and a scale for the "
           "matrix; no calibration",
    .bits_min = 4,
    .bits_max = 4,
    .results = QUANT_ZERO_IS_ZERO,
    .options = "",
    .run = run,
    .flop = 90,
};

/* Rounding with a random dither: each weight becomes one of its two neighbours on the grid, in the
 * mean itself. */
#include "quant/grids.h"
#include "quant/job.h"
#include "util/num.h"
#include "util/rng.h"
#include <math.h>

struct dither_options {
    int64_t seed;
};

static const struct option own_options[] = {
    OPTION_AT("dither_seed", dither_options, seed, INT, "dither: seed of the random numbers",
              .fallback = "0", .low = 0, .high = INT64_MAX),
};

static void quantize_tile(const struct quant_job *job, const void *none, int64_t row, void *scratch)
{
    const struct dither_options *own = quant_own(job->options, METHOD_dither);
    const uint64_t stream =
        rng_stream((uint64_t)own->seed, (uint64_t)(job->layer * 100 + job->linear));
    const int64_t group = grid_group(job->options, job->cols);
    float *t = scratch;
    struct grid g;
    (void)none;
    for (int64_t a = 0; a < job->cols; a += group) {
        const int64_t n = min64(group, job->cols - a);
        tile_load(t, TILE_ROWS, job->w, job->rows, job->cols, row, a, n, NULL);
        grid_fit(&g, t, n, grid_kind_of(job->bits, job->options));
        grid_note(job, row, a / group, &g);
        for (int64_t j = 0; j < n; j++) {
            float *x = t + j * TILE_ROWS;
            for (int64_t i = 0; i < TILE_ROWS; i++) {
                const uint64_t at = (uint64_t)((row + i) * job->cols + a + j);
                x[i] += g.scale[i] * (float)(ldexp((double)rng_bits(stream, at), -64) - 0.5);
            }
            grid_round_stored(x, x, &g, job->bits);
        }
        tile_store(job->q, job->rows, job->cols, row, a, n, NULL, t);
    }
}

static enum status run(const struct quant_job *job, struct quant_report *report, struct err *e)
{
    const int64_t floats = grid_group(job->options, job->cols) * TILE_ROWS;
    PASS(job_rows(job, TILE_ROWS, quantize_tile, NULL, floats * (int64_t)sizeof(float), e));
    return job_report(job, grid_bits(job), report, e);
}

const struct quant_method quant_dither = {
    .name = "dither",
    .doc = "rounding with a random dither",
    .bits_min = QUANT_BITS_MIN,
    .bits_max = QUANT_BITS_MAX,
    .results = QUANT_UNIFORM_GRID | QUANT_ZERO_IS_ZERO,
    .options = "group_size symmetric scale_dtype",
    .own = {OPTION_ROWS(own_options, dither_options)},
    .describe_grids = grid_describe,
    .run = run,
};

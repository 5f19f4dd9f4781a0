/* nf4 and fp4: the 4-bit formats of bitsandbytes (Dettmers et al. 2023; csrc/kernels.cu,
 * functional.py).
 *
 * Blocks are runs of consecutive weights of the flattened matrix, so that they cross rows where the
 * block size does not divide the row, as in the package; every 64 rows a block begins anew. Each
 * has its largest magnitude in f32, and codes of a table for weights divided by it. With double
 * quantization the largest magnitudes are stored in 8 bits: minus their mean, in blocks of 256, as
 * codes of the package's "dynamic" map. The package's CPU code takes the code of the nearest of
 * 65,536 evenly spaced numbers, so that one magnitude in 500 (133 of 65,536 for normal weights)
 * gets the code beside the nearest, and so does this; its CUDA kernel takes the nearest. The mean
 * is summed in f64; torch's f32 sum differs in the last place for two matrices of five, which moved
 * 2 of 104,000 codes. */
#include "coding/codes.h"
#include "coding/tile.h"
#include "quant/job.h"
#include "util/mem.h"
#include "util/num.h"
#include <math.h>

enum { NESTED_BLOCK = 256 };

/* State of quantizing one matrix. */
struct absmax {
    const struct codes *table;
    const struct quant_job *job;
    int64_t block;   /* weights per block */
    int64_t per;     /* blocks of a whole tile of rows */
    int64_t n;       /* tiles */
    int64_t blocks;  /* of the matrix */
    double *largest; // (n, per) largest magnitude of each block, as stored
};

/* Weights of the tile; *at: its first. */
static int64_t tile_weights(const struct absmax *a, int64_t tile, int64_t *at)
{
    *at = tile * TILE_ROWS * a->job->cols;
    return min64(TILE_ROWS, a->job->rows - tile * TILE_ROWS) * a->job->cols;
}

static void tile_largest(const struct absmax *a, int64_t tile)
{
    int64_t at, n = tile_weights(a, tile, &at);
    for (int64_t i = 0; i * a->block < n; i++) {
        const int64_t count = min64(a->block, n - i * a->block);
        const float most = row_largest(a->job->w + at + i * a->block, count);
        a->largest[tile * a->per + i] = (double)most;
    }
}

static void tile_round(const struct absmax *a, int64_t tile)
{
    int64_t at, n = tile_weights(a, tile, &at);
    for (int64_t i = 0; i * a->block < n; i++) {
        const float *w = a->job->w + at + i * a->block;
        float *q = a->job->q + at + i * a->block;
        const int64_t count = min64(a->block, n - i * a->block);
        const float most = row_largest(w, count);
        /* Codes are chosen with the magnitude as it is, and the largest weight is exactly 1. */
        const float inverse = 1 / most, stored = (float)a->largest[tile * a->per + i];
        for (int64_t j = 0; j < count; j++) {
            const float x = isinf(inverse) ? w[j] / most : w[j] * inverse;
            q[j] = most > 0 ? codes_value(a->table, fminf(fmaxf(x, -1), 1)) * stored : 0;
        }
    }
}

/* --- double quantization --- */

/* The n largest magnitudes become what their 8-bit codes mean. */
static void nest(double *largest, int64_t n)
{
    float map[CODES_DYNAMIC];
    double sum = 0;
    codes_dynamic(map);
    for (int64_t i = 0; i < n; i++) sum += largest[i];
    const float mean = (float)(sum / (double)n);
    for (int64_t a = 0; a < n; a += NESTED_BLOCK) {
        const int64_t end = min64(n, a + NESTED_BLOCK);
        float most = 0;
        for (int64_t i = a; i < end; i++) most = fmaxf(most, fabsf((float)largest[i] - mean));
        const float inverse = 1 / most;
        for (int64_t i = a; i < end; i++) {
            const float x = most > 0 ? ((float)largest[i] - mean) * inverse : 0;
            largest[i] = (double)(codes_dynamic_value(map, fminf(fmaxf(x, -1), 1)) * most + mean);
        }
    }
}

/* --- the method --- */

static int64_t block_of(const struct quant_options *o, int64_t cols)
{
    return min64(o->absmax_block, TILE_ROWS * cols);
}

static double bits_of(const struct absmax *a)
{
    const double weights = (double)a->job->rows * (double)a->job->cols, blocks = (double)a->blocks;
    if (!a->job->options->double_quant) return 4 + 32 * blocks / weights;
    const double nested = ceil(blocks / NESTED_BLOCK);
    return 4 + (8 * blocks + 32 * nested + 32) / weights;
}

static enum status absmax_open(struct absmax *a, struct err *e)
{
    PASS(job_check(a->job, e));
    return mem_zero(&a->largest, a->n * a->per, sizeof *a->largest, "largest weights of blocks", e);
}

static enum status run(const struct codes *table, const struct quant_job *job,
                       struct quant_report *report, struct err *e)
{
    enum status st = OK;
    int64_t first, end, at;
    struct absmax a = {.table = table,
                       .job = job,
                       .block = block_of(job->options, job->cols),
                       .n = tile_count(job->rows)};
    a.per = (TILE_ROWS * job->cols + a.block - 1) / a.block;
    a.blocks = (a.n - 1) * a.per + (tile_weights(&a, a.n - 1, &at) + a.block - 1) / a.block;
    team_own_rows(job->team, job->rows, &first, &end);
    TRY(team_agree(job->team, absmax_open(&a, e), e));
#pragma omp parallel for schedule(dynamic)
    for (int64_t tile = first / TILE_ROWS; tile < tile_count(end); tile++) tile_largest(&a, tile);
    if (job->options->double_quant) {
        TRY(team_gather(job->team, a.largest, a.per, TILE_ROWS, job->rows, e));
        nest(a.largest, a.blocks);
    }
#pragma omp parallel for schedule(dynamic)
    for (int64_t tile = first / TILE_ROWS; tile < tile_count(end); tile++) tile_round(&a, tile);
    TRY(job_report(job, bits_of(&a), report, e));
done:
    free(a.largest);
    return st;
}

static void memory(const struct quant_options *o, const struct quant_extent *x,
                   struct quant_memory *out)
{
    const int64_t per = TILE_ROWS * x->cols / block_of(o, x->cols) + 1;
    out->running = tile_count(x->rows) * per * (int64_t)sizeof(double);
}

#define METHOD(id, text)                                                                           \
    static enum status run_##id(const struct quant_job *job, struct quant_report *report,          \
                                struct err *e)                                                     \
    {                                                                                              \
        return run(&codes_##id, job, report, e);                                                   \
    }                                                                                              \
    const struct quant_method quant_##id = {                                                       \
        .name = #id,                                                                               \
        .doc = text ", scaled by the largest weight of a block; no calibration",                   \
        .bits_min = 4,                                                                             \
        .bits_max = 4,                                                                             \
        .results = QUANT_ZERO_IS_ZERO,                                                             \
        .options = "absmax_block double_quant",                                                    \
        .run = run_##id,                                                                           \
        .memory = memory,                                                                          \
        .flop = 75,                                                                                \
    };

METHOD(nf4, "4-bit codes for normally distributed weights (QLoRA)")
METHOD(fp4, "4-bit floats of bitsandbytes")

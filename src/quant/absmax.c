#include "quant/absmax.h"
#include "coding/tile.h"
#include "quant/blocks.h"
#include "quant/report.h"
#include "util/mem.h"
#include "util/num.h"
#include <math.h>
#include <stdlib.h>

enum { NESTED_BLOCK = 256, DECADES = 7 };

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
        const float most = blocks_largest(a->job->w + at + i * a->block, count);
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
        const float most = blocks_largest(w, count);
        /* Codes are chosen with the magnitude as it is, and the largest weight is exactly 1. */
        const float inverse = 1 / most, stored = (float)a->largest[tile * a->per + i];
        for (int64_t j = 0; j < count; j++) {
            const float x = isinf(inverse) ? w[j] / most : w[j] * inverse;
            q[j] = most > 0 ? codes_value(a->table, fminf(fmaxf(x, -1), 1)) * stored : 0;
        }
    }
}

/* --- double quantization --- */

/* Boundary k of n equal parts of 0.1 to 1, as torch.linspace computes it: from the nearer end. */
static float boundary(int k, int n)
{
    const float step = (1 - 0.1f) / (float)n;
    return 2 * k < n ? fmaf(step, (float)k, 0.1f) : fmaf(-step, (float)(n - k), 1);
}

void absmax_dynamic(float map[DYNAMIC_N])
{
    /* A decade 10^(i-6) has 2^i values: the middles of equal parts of 0.1 to 1. */
    const int zero = DYNAMIC_N / 2 - 1;
    map[zero] = 0;
    map[DYNAMIC_N - 1] = 1;
    for (int i = 0, k = 1; i < DECADES; i++)
        for (int j = 0; j < 1 << i; j++, k++) {
            const float middle = (boundary(j, 1 << i) + boundary(j + 1, 1 << i)) / 2;
            map[zero + k] = (float)pow(10, i - (DECADES - 1)) * middle;
            map[zero - k] = -map[zero + k];
        }
}

/* What the code of x, -1 to 1, means. As in the package's CPU code, x is moved to the nearest of
 * 65,536 evenly spaced numbers before (csrc/cpu_ops.cpp: build_quantize_lut, norm_to_lut_index). */
static float dynamic_value(const float map[DYNAMIC_N], float x)
{
    enum { STEPS = 65535 };
    const int step = (int)((x + 1) * 0.5f * STEPS + 0.5f);
    const float at = -1 + 2.0f * (float)step / STEPS;
    int low = 0, high = DYNAMIC_N - 1;
    while (low < high) {
        const int middle = (low + high) / 2;
        if ((map[middle] + map[middle + 1]) / 2 < at)
            low = middle + 1;
        else
            high = middle;
    }
    return map[low];
}

/* The n largest magnitudes become what their 8-bit codes mean. */
static void nest(double *largest, int64_t n)
{
    float map[DYNAMIC_N];
    double sum = 0;
    absmax_dynamic(map);
    for (int64_t i = 0; i < n; i++) sum += largest[i];
    const float mean = (float)(sum / (double)n);
    for (int64_t a = 0; a < n; a += NESTED_BLOCK) {
        const int64_t end = min64(n, a + NESTED_BLOCK);
        float most = 0;
        for (int64_t i = a; i < end; i++) most = fmaxf(most, fabsf((float)largest[i] - mean));
        const float inverse = 1 / most;
        for (int64_t i = a; i < end; i++) {
            const float x = most > 0 ? ((float)largest[i] - mean) * inverse : 0;
            largest[i] = (double)(dynamic_value(map, fminf(fmaxf(x, -1), 1)) * most + mean);
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

enum status absmax_run(const struct codes *table, const struct quant_job *job,
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

void absmax_memory(const struct quant_options *o, const struct quant_extent *x,
                   struct quant_memory *out)
{
    const int64_t per = TILE_ROWS * x->cols / block_of(o, x->cols) + 1;
    out->running = tile_count(x->rows) * per * (int64_t)sizeof(double);
}

#include "coding/grid.h"
#include "coding/floats.h"
#include "math/dtype.h"
#include "math/kernel.h"
#include <math.h>

static float code_max(int64_t bits)
{
    return (float)((1 << bits) - 1);
}

/* The range of each row, or of so many rows, made symmetric if requested. */
KERNEL_STATIC(void, range_find,
              (float *low, float *high, const float *t, int64_t n, bool symmetric, int64_t rows),
              (low, high, t, n, symmetric, rows))
{
    for (int r = 0; r < TILE_ROWS; r++) low[r] = high[r] = 0;
    for (int64_t j = 0; j < n; j++) {
        const float *x = t + j * TILE_ROWS;
        for (int r = 0; r < TILE_ROWS; r++) {
            low[r] = x[r] < low[r] ? x[r] : low[r];
            high[r] = x[r] > high[r] ? x[r] : high[r];
        }
    }
    for (int64_t a = 0; a < TILE_ROWS && rows > 1; a += rows)
        for (int64_t r = a + 1; r < a + rows; r++) {
            low[a] = low[r] < low[a] ? low[r] : low[a];
            high[a] = high[r] > high[a] ? high[r] : high[a];
        }
    for (int64_t r = 0; r < TILE_ROWS && rows > 1; r++) {
        low[r] = low[r - r % rows];
        high[r] = high[r - r % rows];
    }
    for (int r = 0; r < TILE_ROWS && symmetric; r++) {
        high[r] = -low[r] > high[r] ? -low[r] : high[r];
        low[r] = low[r] < 0 ? -high[r] : low[r];
    }
}

/* The grid of a range multiplied by the factor. */
KERNEL_STATIC(void, range_grid,
              (struct grid * g, const float *low, const float *high, float factor,
               const struct grid_kind *kind),
              (g, low, high, factor, kind))
{
    float maxq = code_max(kind->bits);
    for (int r = 0; r < TILE_ROWS; r++) {
        float a = factor * low[r], b = factor * high[r], scale = (b - a) / maxq;
        /* Also for a range so small that the scale underflows to 0, for which the reference
         * computes NaN. */
        bool empty = !(scale > 0);
        a = empty ? -factor : a;
        scale = empty ? 2.0f * factor / maxq : scale;
        g->scale[r] = scale;
        g->zero[r] = kind->symmetric ? (maxq + 1) / 2 : nearbyintf(-a / scale);
    }
}

/* The same for GRID_AWQ. */
static void range_grid_awq(struct grid *g, const float *low, const float *high, float factor,
                           const struct grid_kind *kind)
{
    const float least = 1e-5f, maxq = code_max(kind->bits), half = (maxq + 1) / 2;
    for (int r = 0; r < TILE_ROWS; r++) {
        float range = fmaxf(kind->symmetric ? high[r] : high[r] - low[r], least);
        g->scale[r] = factor * range / (kind->symmetric ? half - 1 : maxq);
        g->zero[r] = kind->symmetric ? half : nearbyintf(-low[r] / g->scale[r]);
    }
}

/* best <- trial in the rows where its error over the n columns is strictly smaller. */
static void trial_judge(struct grid *best, double *least, const struct grid *trial, const float *t,
                        int64_t n, const struct grid_kind *kind)
{
    double error[TILE_ROWS] = {0};
    float q[TILE_ROWS], exponent = (float)kind->search;
    for (int64_t j = 0; j < n; j++) {
        const float *x = t + j * TILE_ROWS;
        grid_round(q, x, trial, kind->bits);
        for (int r = 0; r < TILE_ROWS; r++) {
            float miss = fabsf(q[r] - x[r]);
            error[r] += (double)(exponent == 2.0f ? miss * miss : powf(miss, exponent));
        }
    }
    for (int r = 0; r < TILE_ROWS; r++) {
        if (!(error[r] < least[r])) continue;
        least[r] = error[r];
        best->scale[r] = trial->scale[r];
        best->zero[r] = trial->zero[r];
    }
}

/* The other integer next to low / scale: at 2 bits GPTQModel tries both, because a step of the zero
 * is then a quarter of the range. */
static void zero_other(struct grid *g, const float *low, float factor)
{
    for (int r = 0; r < TILE_ROWS; r++) {
        float at = low[r] < 0 ? -(factor * low[r]) / g->scale[r] : 0;
        g->zero[r] = g->zero[r] > at ? g->zero[r] - 1 : g->zero[r] + 1;
        g->zero[r] = fminf(fmaxf(g->zero[r], 0), 3);
    }
}

static void range_search(struct grid *g, const float *low, const float *high, const float *t,
                         int64_t n, const struct grid_kind *kind)
{
    double least[TILE_ROWS];
    struct grid trial = {.codes = CODES_INTEGER};
    for (int r = 0; r < TILE_ROWS; r++) least[r] = INFINITY;
    for (int step = 0; step < GRID_RANGES; step++) {
        float factor = (float)(1 - step / 100.0);
        (kind->form == GRID_AWQ ? range_grid_awq : range_grid)(&trial, low, high, factor, kind);
        trial_judge(g, least, &trial, t, n, kind);
        if (kind->bits > 2 || kind->symmetric) continue;
        zero_other(&trial, low, factor);
        trial_judge(g, least, &trial, t, n, kind);
    }
}

void grid_fit(struct grid *g, const float *t, int64_t n, struct grid_kind kind)
{
    float low[TILE_ROWS], high[TILE_ROWS];
    g->codes = kind.codes;
    if (kind.codes != CODES_INTEGER) {
        floats_fit(g, t, n, &kind);
        return;
    }
    range_find(low, high, t, n, kind.symmetric, kind.rows);
    for (int r = 0; kind.factor > 0 && r < TILE_ROWS; r++) {
        low[r] *= (float)kind.factor;
        high[r] *= (float)kind.factor;
    }
    if (kind.form == GRID_AWQ)
        range_grid_awq(g, low, high, 1, &kind);
    else
        range_grid(g, low, high, 1, &kind);
    if (kind.search > 0) range_search(g, low, high, t, n, &kind);
    for (int r = 0; r < TILE_ROWS; r++)
        g->stored[r] = kind.dtype != SCALE_F32 ? dtype_round_f16(g->scale[r]) : g->scale[r];
}

KERNEL_STATIC(void, round_times,
              (float *q, const float *x, const struct grid *g, const float *scale, int64_t bits),
              (q, x, g, scale, bits))
{
    float maxq = code_max(bits);
    for (int r = 0; r < TILE_ROWS; r++) {
        float code = nearbyintf(x[r] / g->scale[r]) + g->zero[r];
        code = code > 0 ? code : 0;
        code = code < maxq ? code : maxq;
        q[r] = scale[r] * (code - g->zero[r]);
    }
}

void grid_round(float *q, const float *x, const struct grid *g, int64_t bits)
{
    if (g->codes != CODES_INTEGER)
        floats_round(q, x, g, g->scale);
    else
        round_times(q, x, g, g->scale, bits);
}

void grid_round_stored(float *q, const float *x, const struct grid *g, int64_t bits)
{
    if (g->codes != CODES_INTEGER)
        floats_round(q, x, g, g->stored);
    else
        round_times(q, x, g, g->stored, bits);
}

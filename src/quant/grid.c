#include "quant/grid.h"
#include "quant/clones.h"
#include <math.h>

static float code_max(int64_t bits)
{
    return (float)((1 << bits) - 1);
}

QUANT_CLONES void grid_fit(struct grid *g, const float *t, int64_t n, int64_t bits, bool symmetric)
{
    float low[TILE_ROWS] = {0}, high[TILE_ROWS] = {0}, maxq = code_max(bits);
    for (int64_t j = 0; j < n; j++) {
        const float *x = t + j * TILE_ROWS;
        for (int r = 0; r < TILE_ROWS; r++) {
            low[r] = x[r] < low[r] ? x[r] : low[r];
            high[r] = x[r] > high[r] ? x[r] : high[r];
        }
    }
    for (int r = 0; r < TILE_ROWS; r++) {
        float a = low[r], b = high[r];
        if (symmetric) {
            b = -a > b ? -a : b;
            a = a < 0 ? -b : a;
        }
        float scale = (b - a) / maxq;
        /* Also a range so small that the division left nothing; the reference makes NaN of it. */
        bool empty = !(scale > 0);
        a = empty ? -1.0f : a;
        scale = empty ? 2.0f / maxq : scale;
        g->scale[r] = scale;
        g->zero[r] = symmetric ? (maxq + 1) / 2 : nearbyintf(-a / scale);
    }
}

QUANT_CLONES void grid_round(float *q, const float *x, const struct grid *g, int64_t bits)
{
    float maxq = code_max(bits);
    for (int r = 0; r < TILE_ROWS; r++) {
        float code = nearbyintf(x[r] / g->scale[r]) + g->zero[r];
        code = code > 0 ? code : 0;
        code = code < maxq ? code : maxq;
        q[r] = g->scale[r] * (code - g->zero[r]);
    }
}

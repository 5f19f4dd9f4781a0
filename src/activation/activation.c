#include "activation/activation.h"
#include "math/kernel.h"
#include <math.h>

bool activation_any(const struct activation_grids *g)
{
    return activation_quantizes(&g->inputs) || activation_quantizes(&g->keys) ||
           activation_quantizes(&g->values);
}

/* Partial results, so that the compiler may compute them side by side. */
enum { LANES = 16 };

KERNEL(void, activation_extend, (struct activation_range * r, const float *x, int64_t n), (r, x, n))
{
    float low[LANES], high[LANES];
    const int64_t whole = n - n % LANES;
    for (int k = 0; k < LANES; k++) low[k] = r->low, high[k] = r->high;
    for (int64_t i = 0; i < whole; i += LANES)
#pragma omp simd
        for (int k = 0; k < LANES; k++) {
            low[k] = x[i + k] < low[k] ? x[i + k] : low[k];
            high[k] = x[i + k] > high[k] ? x[i + k] : high[k];
        }
    for (int64_t i = whole; i < n; i++) {
        low[0] = x[i] < low[0] ? x[i] : low[0];
        high[0] = x[i] > high[0] ? x[i] : high[0];
    }
    for (int k = 0; k < LANES; k++) {
        r->low = low[k] < r->low ? low[k] : r->low;
        r->high = high[k] > r->high ? high[k] : r->high;
    }
}

KERNEL(bool, activation_finite, (const float *x, int64_t n), (x, n))
{
    float zero[LANES] = {0}, sum = 0; /* NaN and infinities times 0 are NaN */
    const int64_t whole = n - n % LANES;
    for (int64_t i = 0; i < whole; i += LANES)
#pragma omp simd
        for (int k = 0; k < LANES; k++) zero[k] += x[i + k] * 0;
    for (int64_t i = whole; i < n; i++) sum += x[i] * 0;
    for (int k = 0; k < LANES; k++) sum += zero[k];
    return sum == 0;
}

struct activation_scale activation_scale(const struct activation_grid *g, struct activation_range r,
                                         bool whole)
{
    const float clip = (float)g->clip;
    float low = whole ? fminf(r.low, 0) : r.low, high = whole ? fmaxf(r.high, 0) : r.high;
    low *= clip;
    high *= clip;
    if (g->symmetric) {
        const float most = (float)((1 << (g->bits - 1)) - 1), size = fmaxf(fabsf(low), high);
        return (struct activation_scale){size > 0 ? size / most : 1, 0, -most - 1, most};
    }
    const float codes = (float)((1 << g->bits) - 1);
    if (low == 0 && high == 0) low = -1, high = 1;
    const float scale = (high - low) / codes;
    const float zero = scale > 0 ? rintf(-low / scale) : 0;
    return (struct activation_scale){scale, zero, 0, codes};
}

KERNEL(void, activation_round, (const struct activation_scale *s, float *x, int64_t n), (s, x, n))
{
    const float scale = s->scale, zero = s->zero, least = s->least, most = s->most;
    if (scale == 0) return;
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float code = rintf(x[i] / scale) + zero;
        code = code < least ? least : code;
        code = code > most ? most : code;
        x[i] = scale * (code - zero);
    }
}

void activation_row(const struct activation_grid *g, int64_t group, float *x, int64_t n)
{
    const int64_t size = group < 0 ? n : group;
    for (int64_t i = 0; i < n; i += size) {
        struct activation_range r = ACTIVATION_EMPTY;
        activation_extend(&r, x + i, size);
        const struct activation_scale s = activation_scale(g, r, group < 0);
        activation_round(&s, x + i, size);
    }
}

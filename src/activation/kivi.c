#include "activation/kivi.h"
#include "math/kernel.h"

/* Channels of keys that are rounded side by side. */
enum { LANES = 16 };

KERN_LANE float round_one(float x, float least, float scale, float codes)
{
    float code = (x - least) / scale;
    code = code < 0 ? 0 : code;
    code = code > codes ? codes : code;
    return rintf(code) * scale + least;
}

/* A group of n rows, D apart, of at most LANES columns. */
KERNEL_STATIC(void, group_columns,
              (const float *x, int64_t n, int64_t cols, int64_t D, float codes, float *y),
              (x, n, cols, D, codes, y))
{
    float low[LANES], scale[LANES];
#pragma omp simd
    for (int64_t j = 0; j < cols; j++) {
        float least = x[j], most = x[j];
        for (int64_t i = 1; i < n; i++) {
            least = x[i * D + j] < least ? x[i * D + j] : least;
            most = x[i * D + j] > most ? x[i * D + j] : most;
        }
        low[j] = least;
        scale[j] = (most - least) / codes;
    }
    for (int64_t i = 0; i < n; i++)
#pragma omp simd
        for (int64_t j = 0; j < cols; j++) {
            const float own = x[i * D + j];
            y[i * D + j] = scale[j] == 0 ? own : round_one(own, low[j], scale[j], codes);
        }
}

void kivi_keys(const struct activation_grid *g, const float *x, int64_t n, int64_t D, float *y)
{
    const int64_t size = g->group_size, whole = n - n % size;
    const float codes = (float)((1 << g->bits) - 1);
    for (int64_t i = 0; i < whole; i += size)
        for (int64_t j = 0; j < D; j += LANES)
            group_columns(x + i * D + j, size, D - j < LANES ? D - j : LANES, D, codes,
                          y + i * D + j);
    for (int64_t i = whole * D; i < n * D; i++) y[i] = x[i];
}

KERNEL_STATIC(void, group_row,
              (const float *x, int64_t n, struct activation_range r, float codes, float *y),
              (x, n, r, codes, y))
{
    const float scale = (r.high - r.low) / codes;
#pragma omp simd
    for (int64_t j = 0; j < n; j++) y[j] = scale == 0 ? x[j] : round_one(x[j], r.low, scale, codes);
}

void kivi_values(const struct activation_grid *g, const float *x, int64_t n, int64_t D, float *y)
{
    const int64_t size = g->group_size < 0 ? D : g->group_size;
    const float codes = (float)((1 << g->bits) - 1);
    for (int64_t i = 0; i < n * D; i += size) {
        struct activation_range r = ACTIVATION_EMPTY;
        activation_extend(&r, x + i, size);
        group_row(x + i, size, r, codes, y + i);
    }
}

static bool sees_cache(const struct activation_grid *g, int64_t t)
{
    return g->residual > 0 && t >= g->prefill;
}

int64_t kivi_keys_old(const struct activation_grid *g, int64_t t)
{
    return sees_cache(g, t) ? t - t % g->residual : 0;
}

int64_t kivi_values_old(const struct activation_grid *g, int64_t t)
{
    return sees_cache(g, t) && t > g->residual ? t - g->residual : 0;
}

#include "activation/activation.h"
#include "coding/floats.h"
#include "math/kernel.h"
#include "util/mem.h"
#include <math.h>

bool activation_any(const struct activation_grids *g)
{
    return activation_quantizes(&g->inputs) || g->inputs.qkv_bits > 0 ||
           activation_quantizes(&g->keys) || activation_quantizes(&g->values);
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
    if (g->codes != INPUT_INTEGER) {
        const struct float_format *f =
            float_format_of(g->codes == INPUT_FP8_E4M3 ? CODES_FP8_E4M3 : CODES_FP8_E5M2);
        const float size = fmaxf(fabsf(low), fabsf(high));
        return (struct activation_scale){size > 0 ? size / f->most : 1, 0, ldexpf(1, f->least),
                                         f->most, f->mantissa};
    }
    if (g->symmetric) {
        const float most = (float)((1 << (g->bits - 1)) - 1), size = fmaxf(fabsf(low), high);
        return (struct activation_scale){size > 0 ? size / most : 1, 0, -most - 1, most, 0};
    }
    const float codes = (float)((1 << g->bits) - 1);
    if (low == 0 && high == 0) low = -1, high = 1;
    const float scale = (high - low) / codes;
    float zero = scale > 0 ? rintf(-low / scale) : 0;
    if (g->clamp_zero) zero = fminf(fmaxf(zero, 0), codes);
    return (struct activation_scale){scale, zero, 0, codes, 0};
}

KERNEL_STATIC(void, round_integers, (const struct activation_scale *s, float *x, int64_t n),
              (s, x, n))
{
    const float scale = s->scale, zero = s->zero, least = s->least, most = s->most;
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float code = rintf(x[i] / scale) + zero;
        code = code < least ? least : code;
        code = code > most ? most : code;
        x[i] = scale * (code - zero);
    }
}

void activation_round(const struct activation_scale *s, float *x, int64_t n)
{
    if (s->scale == 0) return;
    if (s->mantissa == 0) round_integers(s, x, n);
    for (int64_t i = 0; i < n && s->mantissa > 0; i++)
        x[i] = s->scale * float_nearest(x[i] / s->scale, s->mantissa, s->least, s->most);
}

KERNEL_STATIC(void, code_integers,
              (const struct activation_scale *s, const float *x, uint8_t *to, int64_t n),
              (s, x, to, n))
{
    const float scale = s->scale, zero = s->zero, least = s->least, most = s->most;
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float code = rintf(x[i] / scale) + zero;
        code = code > least ? code : least; /* NaN too */
        code = code < most ? code : most;
        to[i] = (uint8_t)(int32_t)(code - least);
    }
}

void activation_codes(const struct activation_scale *s, const float *x, int64_t n, uint8_t *code,
                      int32_t *zero)
{
    *zero = isfinite(s->scale) ? (int32_t)(s->zero - s->least) : 0;
    if (s->scale == 0)
        memset(code, *zero, (size_t)n);
    else
        code_integers(s, x, code, n);
}

struct activation_scale activation_scale_of(const struct activation_grid *g, const float *x,
                                            int64_t n, bool whole)
{
    struct activation_range r = ACTIVATION_EMPTY;
    activation_extend(&r, x, n);
    return activation_scale(g, r, whole);
}

void activation_row(const struct activation_grid *g, int64_t group, float *x, int64_t n)
{
    const int64_t size = group < 0 ? n : group;
    for (int64_t i = 0; i < n; i += size) {
        const int64_t own = size < n - i ? size : n - i;
        const struct activation_scale s = activation_scale_of(g, x + i, own, group < 0);
        activation_round(&s, x + i, own);
    }
}

/* --- outlier channels --- */

const char *const outlier_scores[] = {"largest", "squares", "mean", NULL};

struct scored {
    double score;
    int32_t channel;
};

static int ascending(const void *a, const void *b)
{
    const struct scored *x = a, *y = b;
    if (x->score != y->score) return x->score < y->score ? -1 : 1;
    return (x->channel > y->channel) - (x->channel < y->channel);
}

enum status activation_order(const double *score, int64_t n, int32_t *order, struct err *e)
{
    struct scored *all;
    PASS(mem_alloc(&all, n, sizeof *all, "the order of channels", e));
    for (int64_t i = 0; i < n; i++) all[i] = (struct scored){score[i], (int32_t)i};
    qsort(all, (size_t)n, sizeof *all, ascending);
    for (int64_t i = 0; i < n; i++) order[i] = all[i].channel;
    free(all);
    return OK;
}

void activation_row_outliers(const struct activation_grid *g, int64_t group, const int32_t *order,
                             float *x, int64_t n, float *scratch)
{
    const struct activation_grid own = {.bits = g->outlier_bits, .symmetric = true, .clip = 1};
    const int64_t rest = n - g->outliers;
    for (int64_t i = 0; i < n; i++) scratch[i] = x[order[i]];
    activation_row(g, group, scratch, rest);
    if (activation_quantizes(&own)) activation_row(&own, -1, scratch + rest, g->outliers);
    for (int64_t i = 0; i < n; i++) x[order[i]] = scratch[i];
}

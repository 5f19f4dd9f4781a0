/* Activations, and the small elementwise steps around the linear layers. */
#include "tensor/kern.h"
#include "tensor/kern_lane.h"
#include <math.h>

KERN_LANE float silu(float x)
{
    return x / (1.0f + lane_exp(-x));
}

KERN_CLONES void kern_silu(float *y, const float *x, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) y[i] = silu(x[i]);
}

KERN_CLONES void kern_silu_mul(float *y, const float *gate, const float *up, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) y[i] = silu(gate[i]) * up[i];
}

KERN_CLONES void kern_gelu(float *y, const float *x, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) y[i] = x[i] * lane_normal_cdf(x[i]);
}

/* x (1 + tanh u) / 2 = x / (1 + e^-2u), u = sqrt(2/pi) (x + 0.044715 x^3). */
KERN_CLONES void kern_gelu_tanh(float *y, const float *x, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float u = 0.79788456f * (x[i] + 0.044715f * x[i] * x[i] * x[i]);
        y[i] = x[i] / (1.0f + lane_exp(-2.0f * u));
    }
}

KERN_CLONES void kern_xielu(float *y, const float *x, int64_t n, const struct xielu *c)
{
    const float a = c->a, b = c->b, beta = c->beta, eps = c->eps;
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float v = x[i], low = v < eps ? v : eps;
        float positive = a * v * v, negative = b * (lane_expm1_negative(low) - v);
        y[i] = (v > 0.0f ? positive : negative) + beta * v;
    }
}

KERN_CLONES void kern_mul(float *y, const float *x, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) y[i] *= x[i];
}

KERN_CLONES void kern_add(float *y, const float *x, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) y[i] += x[i];
}

KERN_CLONES void kern_scale(float *y, float c, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) y[i] *= c;
}

KERN_CLONES void kern_add_row(float *y, int64_t ldy, const float *b, int64_t T, int64_t n)
{
    for (int64_t t = 0; t < T; t++)
#pragma omp simd
        for (int64_t i = 0; i < n; i++) y[t * ldy + i] += b[i];
}

KERN_CLONES void kern_clip(float *y, int64_t ldy, float c, int64_t T, int64_t n)
{
    for (int64_t t = 0; t < T; t++) {
        float *row = y + t * ldy;
#pragma omp simd
        for (int64_t i = 0; i < n; i++) {
            float v = row[i] > c ? c : row[i];
            row[i] = v < -c ? -c : v;
        }
    }
}

KERN_CLONES void kern_rope(float *x, int64_t ld, int64_t heads, int64_t stride, const float *cosine,
                           const float *sine, int64_t T, int64_t half)
{
    for (int64_t t = 0; t < T; t++, cosine += half, sine += half)
        for (int64_t h = 0; h < heads; h++) {
            float *restrict low = x + t * ld + h * stride, *restrict high = low + half;
#pragma omp simd
            for (int64_t j = 0; j < half; j++) {
                float u = low[j], v = high[j];
                low[j] = u * cosine[j] - v * sine[j];
                high[j] = v * cosine[j] + u * sine[j];
            }
        }
}

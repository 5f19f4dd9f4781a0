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

/* Phi(x), the normal distribution. With a = |x| / sqrt 2: erf(a) = a P(a^2) below 1; above,
 * erfc(a) = e^(g(a) - a^2), g held at its value at 4.2 where erfc is below f32's resolution of Phi.
 * P and g are polynomials fitted for this file (minimax, error below 1e-8 of Phi). */
KERN_LANE float normal_cdf(float x)
{
    float a = 0.70710678f * fabsf(x), u = a * a, sign = copysignf(1.0f, x);
    float p = 7.85385782e-05f;
    p = p * u - 0.000801019254f;
    p = p * u + 0.00518832775f;
    p = p * u - 0.026853811f;
    p = p * u + 0.112835854f;
    p = p * u - 0.37612626f;
    p = p * u + 1.12837911f;
    float near = 0.5f + sign * (0.5f * a * p);
    a = a < 4.2f ? a : 4.2f;
    float g = -1.35924683e-05f;
    g = g * a + 0.000324115943f;
    g = g * a - 0.00349587598f;
    g = g * a + 0.0228956006f;
    g = g * a - 0.104028694f;
    g = g * a + 0.361939698f;
    g = g * a - 1.12670875f;
    g = g * a - 0.000518083863f;
    float far = (0.5f + 0.5f * sign) - sign * (0.5f * lane_exp(g - u)); /* 1 - e, or e itself */
    return u < 1.0f ? near : far;
}

KERN_CLONES void kern_gelu(float *y, const float *x, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) y[i] = x[i] * normal_cdf(x[i]);
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

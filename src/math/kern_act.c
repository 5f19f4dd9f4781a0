/* Activations of the forward pass, products and scaling. */
#include "math/kern.h"
#include "math/kern_lane.h"

/* x / (1 + e^-x). */
KERN_LANE float lane_silu(float x)
{
    return x / (1.0f + lane_exp(-x));
}

KERNEL(void, kern_silu, (float *y, const float *x, int64_t n), (y, x, n))
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) y[i] = lane_silu(x[i]);
}

KERNEL(void, kern_silu_mul, (float *y, const float *gate, const float *up, int64_t n),
       (y, gate, up, n))
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) y[i] = lane_silu(gate[i]) * up[i];
}

KERNEL(void, kern_gelu, (float *y, const float *x, int64_t n), (y, x, n))
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) y[i] = x[i] * lane_normal_cdf(x[i]);
}

/* x (1 + tanh u) / 2 = x / (1 + e^-2u), u = sqrt(2/pi) (x + 0.044715 x^3). */
KERNEL(void, kern_gelu_tanh, (float *y, const float *x, int64_t n), (y, x, n))
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float u = 0.79788456f * (x[i] + 0.044715f * x[i] * x[i] * x[i]);
        y[i] = x[i] / (1.0f + lane_exp(-2.0f * u));
    }
}

KERNEL(void, kern_relu2, (float *y, const float *x, int64_t n), (y, x, n))
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float v = x[i] > 0.0f ? x[i] : 0.0f;
        y[i] = v * v;
    }
}

KERNEL(void, kern_xielu, (float *y, const float *x, int64_t n, const struct xielu *c), (y, x, n, c))
{
    const float a = c->a, b = c->b, beta = c->beta, eps = c->eps;
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float v = x[i], low = v < eps ? v : eps;
        float positive = a * v * v, negative = b * (lane_expm1_negative(low) - v);
        y[i] = (v > 0.0f ? positive : negative) + beta * v;
    }
}

KERNEL(void, kern_mul, (float *y, const float *x, int64_t n), (y, x, n))
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) y[i] *= x[i];
}

KERNEL(void, kern_scale, (float *y, float c, int64_t n), (y, c, n))
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) y[i] *= c;
}

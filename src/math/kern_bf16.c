#include "math/kern_bf16.h"
#include "math/bf16_lane.h"
#include "math/kern_lane.h"

KERNEL(void, kern_bf16_round, (float *y, const float *x, int64_t n), (y, x, n))
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) y[i] = lane_bf16(x[i]);
}

KERNEL(void, kern_bf16_bias, (float *y, int64_t ldy, const float *b, int64_t T, int64_t n),
       (y, ldy, b, T, n))
{
    for (int64_t t = 0; t < T; t++, y += ldy) {
        if (b)
#pragma omp simd
            for (int64_t i = 0; i < n; i++) y[i] += lane_bf16(b[i]);
#pragma omp simd
        for (int64_t i = 0; i < n; i++) y[i] = lane_bf16(y[i]);
    }
}

KERN_LANE float product(float a, float b, bool between)
{
    return between ? lane_bf16(a * b) : a * b;
}

KERNEL(void, kern_bf16_rope,
       (float *x, int64_t ld, int64_t heads, int64_t stride, const float *cosine, const float *sine,
        int64_t T, int64_t half, bool between),
       (x, ld, heads, stride, cosine, sine, T, half, between))
{
    for (int64_t t = 0; t < T; t++, cosine += half, sine += half)
        for (int64_t h = 0; h < heads; h++) {
            float *restrict low = x + t * ld + h * stride, *restrict high = low + half;
#pragma omp simd
            for (int64_t j = 0; j < half; j++) {
                const float u = low[j], v = high[j];
                const float c = between ? lane_bf16(cosine[j]) : cosine[j];
                const float s = between ? lane_bf16(sine[j]) : sine[j];
                low[j] = lane_bf16(product(u, c, between) - product(v, s, between));
                high[j] = lane_bf16(product(v, c, between) + product(u, s, between));
            }
        }
}

KERNEL(void, kern_bf16_xielu, (float *y, const float *x, int64_t n, const struct xielu *c),
       (y, x, n, c))
{
    const float a = c->a, b = c->b, beta = c->beta, eps = c->eps;
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        const float v = x[i], low = v < eps ? v : eps, line = lane_bf16(beta * v);
        const float positive = lane_bf16(lane_bf16(a * v) * v);
        const float curve = lane_bf16(lane_bf16(lane_expm1_negative(low)) - v);
        y[i] = lane_bf16((v > 0.0f ? positive : lane_bf16(curve * b)) + line);
    }
}

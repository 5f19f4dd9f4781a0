/* Normalisations of rows. */
#include "tensor/kern.h"
#include "tensor/kern_lane.h"
#include <math.h>

KERN_LANE float sum(const float *x, int64_t n)
{
    float lane[LANES] = {0};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
#pragma omp simd
        for (int l = 0; l < LANES; l++) lane[l] += x[i + l];
    for (int l = 0; i < n; i++, l++) lane[l] += x[i];
    return lanes_sum(lane);
}

KERN_LANE float sum_squares(const float *x, int64_t n, float mean)
{
    float lane[LANES] = {0};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
#pragma omp simd
        for (int l = 0; l < LANES; l++) lane[l] += (x[i + l] - mean) * (x[i + l] - mean);
    for (int l = 0; i < n; i++, l++) lane[l] += (x[i] - mean) * (x[i] - mean);
    return lanes_sum(lane);
}

KERNEL(void, kern_rms_norm,
       (float *y, int64_t ldy, const float *x, int64_t ldx, const float *w, int64_t T, int64_t n,
        float eps),
       (y, ldy, x, ldx, w, T, n, eps))
{
    for (int64_t t = 0; t < T; t++, x += ldx, y += ldy) {
        float r = 1.0f / sqrtf(sum_squares(x, n, 0.0f) / (float)n + eps);
#pragma omp simd
        for (int64_t i = 0; i < n; i++) y[i] = w[i] * (x[i] * r);
    }
}

KERNEL(void, kern_layer_norm,
       (float *y, int64_t ldy, const float *x, int64_t ldx, const float *w, const float *b,
        int64_t T, int64_t n, float eps),
       (y, ldy, x, ldx, w, b, T, n, eps))
{
    for (int64_t t = 0; t < T; t++, x += ldx, y += ldy) {
        float mean = sum(x, n) / (float)n;
        float r = 1.0f / sqrtf(sum_squares(x, n, mean) / (float)n + eps);
#pragma omp simd
        for (int64_t i = 0; i < n; i++) y[i] = (x[i] - mean) * r;
        if (w)
#pragma omp simd
            for (int64_t i = 0; i < n; i++) y[i] *= w[i];
        if (b)
#pragma omp simd
            for (int64_t i = 0; i < n; i++) y[i] += b[i];
    }
}

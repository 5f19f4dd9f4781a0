/* Normalisations of rows. */
#include "math/kern.h"
#include "math/kern_f32_lane.h"

KERNEL(void, kern_rms_norm,
       (float *y, int64_t ldy, const float *x, int64_t ldx, const float *w, int64_t T, int64_t n,
        float eps),
       (y, ldy, x, ldx, w, T, n, eps))
{
    for (int64_t t = 0; t < T; t++, x += ldx, y += ldy) {
        float r = lane_norm_scale(x, n, 0.0f, eps);
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
        const float mean = lane_mean(x, n), r = lane_norm_scale(x, n, mean, eps);
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

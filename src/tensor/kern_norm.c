/* Normalisations of rows. */
#include "tensor/kern.h"
#include "tensor/kern_lane.h"
#include <math.h>

/* 1 / sqrt(mean of (x - mean)^2 + eps). */
KERN_LANE float scale_of(const float *x, int64_t n, float mean, float eps)
{
    float squares;
    REAL_SUM(squares, i, 0, n, (x[i] - mean) * (x[i] - mean));
    return 1.0f / sqrtf(squares / (float)n + eps);
}

KERNEL(void, kern_rms_norm,
       (float *y, int64_t ldy, const float *x, int64_t ldx, const float *w, int64_t T, int64_t n,
        float eps),
       (y, ldy, x, ldx, w, T, n, eps))
{
    for (int64_t t = 0; t < T; t++, x += ldx, y += ldy) {
        float r = scale_of(x, n, 0.0f, eps);
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
        float sum;
        REAL_SUM(sum, i, 0, n, x[i]);
        const float mean = sum / (float)n, r = scale_of(x, n, mean, eps);
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

/* Normalisations of rows. */
#include "math/bf16_lane.h"
#include "math/kern_bf16.h"
#include "math/kern_lane.h"

KERN_LANE float rounded_if(bool rounded, float x)
{
    return rounded ? lane_bf16(x) : x;
}

/* The mean of n values. */
KERN_LANE float mean_of(const float *x, int64_t n)
{
    float sum;
    REAL_SUM(sum, i, 0, n, x[i]);
    return sum / (float)n;
}

/* 1 / sqrt(mean of (x - mean)^2 + eps). */
KERN_LANE float scale_of(const float *x, int64_t n, float mean, float eps)
{
    float squares;
    REAL_SUM(squares, i, 0, n, (x[i] - mean) * (x[i] - mean));
    return 1.0f / sqrtf(squares / (float)n + eps);
}

/* rounded: f's, a constant where this is inlined. */
KERN_LANE void rows_norm(const struct kern_norm *f, bool rounded, float *y, int64_t ldy,
                         const float *x, int64_t ldx, int64_t T)
{
    const float *w = f->w, *b = f->b;
    const bool between = rounded && f->between;
    const int64_t n = f->n;
    for (int64_t t = 0; t < T; t++, x += ldx, y += ldy) {
        const float mean = f->centred ? mean_of(x, n) : 0;
        const float r = scale_of(x, n, mean, f->eps);
#pragma omp simd
        for (int64_t i = 0; i < n; i++) y[i] = rounded_if(between, (x[i] - mean) * r);
        if (w)
#pragma omp simd
            for (int64_t i = 0; i < n; i++) y[i] *= rounded_if(rounded, w[i]);
        if (b)
#pragma omp simd
            for (int64_t i = 0; i < n; i++) y[i] += rounded_if(rounded, b[i]);
        if (rounded) kern_bf16_round(y, y, n);
    }
}

KERNEL(void, kern_norm,
       (const struct kern_norm *f, float *y, int64_t ldy, const float *x, int64_t ldx, int64_t T),
       (f, y, ldy, x, ldx, T))
{
    if (f->rounded)
        rows_norm(f, true, y, ldy, x, ldx, T);
    else
        rows_norm(f, false, y, ldy, x, ldx, T);
}

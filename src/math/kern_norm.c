/* Normalisations of rows. */
#include "math/kern.h"
#include "math/kern_f32_lane.h"

KERNEL(void, kern_norm,
       (const struct kern_norm *f, float *y, int64_t ldy, const float *x, int64_t ldx, int64_t T),
       (f, y, ldy, x, ldx, T))
{
    const float *w = f->w, *b = f->b;
    const int64_t n = f->n;
    for (int64_t t = 0; t < T; t++, x += ldx, y += ldy) {
        const float mean = f->centred ? lane_mean(x, n) : 0;
        const float r = lane_norm_scale(x, n, mean, f->eps);
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

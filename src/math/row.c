#include "math/row.h"
#include "math/diff_lane.h"

KERNEL(void, row_rope,
       (real * x, int64_t ld, int64_t heads, int64_t stride, const real *cosine, const real *sine,
        int64_t T, int64_t half, bool backward),
       (x, ld, heads, stride, cosine, sine, T, half, backward))
{
    const real sign = backward ? -1 : 1;
    for (int64_t t = 0; t < T; t++, cosine += half, sine += half)
        for (int64_t h = 0; h < heads; h++) {
            real *restrict low = x + t * ld + h * stride, *restrict high = low + half;
#pragma omp simd
            for (int64_t j = 0; j < half; j++) {
                real u = low[j], v = high[j], s = sign * sine[j];
                low[j] = u * cosine[j] - v * s;
                high[j] = v * cosine[j] + u * s;
            }
        }
}

KERNEL(void, row_add, (real * y, const real *a, const real *b, int64_t n), (y, a, b, n))
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) y[i] = a[i] + b[i];
}

KERNEL(void, row_axpy, (real * y, real c, const real *x, int64_t n), (y, c, x, n))
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) y[i] += c * x[i];
}

KERNEL(void, row_add_bias, (real * y, int64_t ldy, const real *b, int64_t T, int64_t n),
       (y, ldy, b, T, n))
{
    for (int64_t t = 0; t < T; t++)
#pragma omp simd
        for (int64_t i = 0; i < n; i++) y[t * ldy + i] += b[i];
}

KERNEL(void, row_sum, (real * y, const real *x, int64_t ldx, int64_t T, int64_t n),
       (y, x, ldx, T, n))
{
    for (int64_t t = 0; t < T; t++)
#pragma omp simd
        for (int64_t i = 0; i < n; i++) y[i] += x[t * ldx + i];
}

KERNEL(void, row_clip, (real * y, int64_t ldy, real c, int64_t T, int64_t n), (y, ldy, c, T, n))
{
    for (int64_t t = 0; t < T; t++) {
        real *row = y + t * ldy;
#pragma omp simd
        for (int64_t i = 0; i < n; i++) {
            real v = row[i] > c ? c : row[i];
            row[i] = v < -c ? -c : v;
        }
    }
}

KERNEL(void, row_clip_mask, (real * y, const real *x, int64_t ld, real c, int64_t T, int64_t n),
       (y, x, ld, c, T, n))
{
    for (int64_t t = 0; t < T; t++)
#pragma omp simd
        for (int64_t i = 0; i < n; i++) {
            real v = x[t * ld + i], inside = v < c && v > -c ? 1 : 0;
            y[t * ld + i] *= inside;
        }
}

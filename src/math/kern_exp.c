/* Exponentials and the pieces of softmaxes. */
#include "math/kern.h"
#include "math/kern_lane.h"

/* The first of x that equals v: whole runs are compared at once, then the run that has it is
 * searched. */
KERN_LANE int64_t first_equal(const float *x, int64_t n, float v)
{
    enum { RUN = 128 };
    int64_t i = 0;
    for (; i + RUN <= n; i += RUN) {
        int32_t any = 0;
#pragma omp simd reduction(| : any)
        for (int l = 0; l < RUN; l++) any |= x[i + l] == v;
        if (any) break;
    }
    for (; i < n; i++)
        if (x[i] == v) return i;
    return 0;
}

KERNEL(float, kern_max, (const float *x, int64_t n, int64_t *first), (x, n, first))
{
    float m = lane_largest(x, n);
    *first = first_equal(x, n, m);
    return m;
}

KERNEL(double, kern_exp_sum, (float *y, const float *x, int64_t n, float shift), (y, x, n, shift))
{
    double sum;
    LONG_SUM(sum, i, n, y[i] = lane_exp(x[i] - shift));
    return sum;
}

KERNEL(float, kern_softmax_step,
       (float *s, int64_t n, int64_t lo, int64_t hi, float scale, float *m, float *l),
       (s, n, lo, hi, scale, m, l))
{
    if (lo >= hi) {
        memset(s, 0, (size_t)n * sizeof *s);
        return 1.0f;
    }
    float top = lane_largest(s + lo, hi - lo) * scale; /* scale > 0 */
    float now = top > *m ? top : *m, factor = lane_exp(*m - now);
    float sum;
    memset(s, 0, (size_t)lo * sizeof *s);
    REAL_SUM(sum, i, lo, hi, s[i] = lane_exp(s[i] * scale - now));
    memset(s + hi, 0, (size_t)(n - hi) * sizeof *s);
    *l = *l * factor + sum;
    *m = now;
    return factor;
}

/* d + e^-d - 1, for |d| < 1/2 by its series to d^8 (last term below 1e-7 of the sum). */
KERN_LANE float kl_series(float d)
{
    float s = 1.0f / 40320;
    s = s * d - 1.0f / 5040;
    s = s * d + 1.0f / 720;
    s = s * d - 1.0f / 120;
    s = s * d + 1.0f / 24;
    s = s * d - 1.0f / 6;
    s = s * d + 0.5f;
    return s * d * d;
}

KERN_LANE float kl_term(float x, float p, float z, float q, float offset)
{
    float d = (x - z) + offset;
    float near = p * kl_series(d), far = p * d + (q - p);
    return d < 0.5f && d > -0.5f ? near : far;
}

KERNEL(double, kern_kl,
       (const float *x, const float *p, const float *z, const float *e, float e_scale, int64_t n,
        float offset),
       (x, p, z, e, e_scale, n, offset))
{
    double sum;
    LONG_SUM(sum, i, n, kl_term(x[i], p[i], z[i], e[i] * e_scale, offset));
    return sum;
}

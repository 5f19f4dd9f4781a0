/* kern_lane: helpers that the vector kernels share: functions of one value, and sums as LANES
 * explicit partial sums. Only kern_*.c and diff_lane.h include it. */
#pragma once
#include "math/kernel.h"
#include "math/real.h"
#include <math.h>
#include <string.h>

enum { LANES = 16 };

/* The sum of LANES partial sums, always in the same order; overwrites them. */
KERN_LANE real lanes_sum(real *lane)
{
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int l = 0; l < half; l++) lane[l] += lane[l + half];
    return lane[0];
}

/* total = the sum of the expression `term` over i in [from, to), in LANES partial sums. */
#define REAL_SUM(total, i, from, to, term)                                                         \
    do {                                                                                           \
        real lane_[LANES] = {0};                                                                   \
        int64_t at_ = (from);                                                                      \
        for (; at_ + LANES <= (to); at_ += LANES)                                                  \
            _Pragma("omp simd") for (int l_ = 0; l_ < LANES; l_++)                                 \
            {                                                                                      \
                int64_t i = at_ + l_;                                                              \
                lane_[l_] += (term);                                                               \
            }                                                                                      \
        for (int l_ = 0; at_ < (to); at_++, l_++) {                                                \
            int64_t i = at_;                                                                       \
            lane_[l_] += (term);                                                                   \
        }                                                                                          \
        (total) = lanes_sum(lane_);                                                                \
    } while (0)

/* The same over [0, n) as a double: sums in `real` over runs of 32 LANES terms, added in f64. */
#define LONG_SUM(total, i, n, term)                                                                \
    do {                                                                                           \
        (total) = 0;                                                                               \
        for (int64_t from_ = 0; from_ < (n); from_ += 32 * LANES) {                                \
            int64_t to_ = from_ + 32 * LANES < (n) ? from_ + 32 * LANES : (n);                     \
            real part_;                                                                            \
            REAL_SUM(part_, i, from_, to_, term);                                                  \
            (total) += (double)part_;                                                              \
        }                                                                                          \
    } while (0)

/* The largest of n values; -infinity for none. */
KERN_LANE real lane_largest(const real *x, int64_t n)
{
    real lane[LANES];
    for (int l = 0; l < LANES; l++) lane[l] = -INFINITY;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
#pragma omp simd
        for (int l = 0; l < LANES; l++) lane[l] = x[i + l] > lane[l] ? x[i + l] : lane[l];
    for (; i < n; i++) lane[0] = x[i] > lane[0] ? x[i] : lane[0];
    for (int l = 1; l < LANES; l++) lane[0] = lane[l] > lane[0] ? lane[l] : lane[0];
    return lane[0];
}

/* 2^n for -126 <= n <= 127. */
KERN_LANE float lane_power2(int32_t n)
{
    uint32_t bits = (uint32_t)(n + 127) << 23;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* x = n ln 2 + r with |r| <= ln 2 / 2 (Cody and Waite's two-part constant); returns r. Adding and
 * subtracting 1.5 * 2^23 rounds to the nearest integer, whose bits are then in the mantissa. */
KERN_LANE float lane_reduce(float x, int32_t *n)
{
    const float round = 12582912.0f;
    float z = x * 1.44269504f + round, f = z - round;
    memcpy(n, &z, sizeof z);
    *n -= 0x4B400000;
    return (x - f * 0.693359375f) + f * 2.12194440e-4f;
}

/* e^r - 1 for a reduced r: its series to r^7, last term below 1e-8 of the sum. */
KERN_LANE float lane_series(float r)
{
    float p = 1.0f / 5040;
    p = p * r + 1.0f / 720;
    p = p * r + 1.0f / 120;
    p = p * r + 1.0f / 24;
    p = p * r + 1.0f / 6;
    p = p * r + 0.5f;
    return r + r * r * p;
}

/* e^x within 2 ulp, subnormal results included; 0 and infinity beyond; NaN stays. The power of two
 * is applied in two halves so that neither leaves the range. */
KERN_LANE float lane_exp(float x)
{
    x = x > 89.0f ? 89.0f : x;
    x = x < -104.0f ? -104.0f : x;
    int32_t n;
    float p = 1.0f + lane_series(lane_reduce(x, &n));
    int32_t half = n >> 1;
    return p * lane_power2(half) * lane_power2(n - half);
}

/* e^x - 1 for x <= 0, without cancellation near 0. */
KERN_LANE float lane_expm1_negative(float x)
{
    x = x < -104.0f ? -104.0f : x;
    int32_t n;
    float p = lane_series(lane_reduce(x, &n));
    n = n < -126 ? -126 : n;
    float s = lane_power2(n);
    return p * s + (s - 1.0f);
}

/* Phi(x), the normal distribution. With a = |x| / sqrt 2: erf(a) = a P(a^2) below 1; above,
 * erfc(a) = e^(g(a) - a^2), g held at its value at 4.2 where erfc is below f32's resolution of Phi.
 * P and g are polynomials fitted for this file (minimax, error below 1e-8 of Phi). */
KERN_LANE float lane_normal_cdf(float x)
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

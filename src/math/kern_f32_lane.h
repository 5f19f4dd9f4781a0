/* kern_f32_lane: helpers of norms and activations, in f32 whatever `real` is. Only kern_*.c include
 * it. */
#pragma once
#include "math/kern_lane.h"

/* x / (1 + e^-x). */
KERN_LANE float lane_silu(float x)
{
    return x / (1.0f + lane_exp(-x));
}

/* The mean of n values. */
KERN_LANE float lane_mean(const float *x, int64_t n)
{
    float sum;
    REAL_SUM(sum, i, 0, n, x[i]);
    return sum / (float)n;
}

/* 1 / sqrt(mean of (x - mean)^2 + eps). */
KERN_LANE float lane_norm_scale(const float *x, int64_t n, float mean, float eps)
{
    float squares;
    REAL_SUM(squares, i, 0, n, (x[i] - mean) * (x[i] - mean));
    return 1.0f / sqrtf(squares / (float)n + eps);
}

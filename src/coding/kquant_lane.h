/* kquant_lane: weights of the formats of kquant_round.h, for vector kernels. Only kquant_fit.c and
 * kquant_round.c include it. */
#pragma once
#include "coding/tile.h"
#include "math/kernel.h"
#include <math.h>

/* The nearest integer, ties to the even one, from low to high; low for a NaN. */
KERN_LANE float kquant_code(float x, float low, float high)
{
    const float code = nearbyintf(x), above = code > low ? code : low;
    return above < high ? above : high;
}

/* The values of IQ4_NL's codes, closer to each other near zero; the nearest to x. */
static const float kquant_iq4_values[] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                          1,    13,   25,  38,  53,  69,  89,  113};
KERN_LANE float kquant_iq4(float x)
{
    const float *v = kquant_iq4_values;
    float value = v[0];
    for (int k = 1; k < 16; k++) value = x - v[k - 1] < v[k] - x ? value : v[k];
    return value;
}

/* The first weight of the largest magnitude of each row of x (n, TILE_ROWS), and the magnitude. */
KERN_LANE void kquant_peak(float *peak, float *most, const float *x, int64_t n)
{
    EACH_ROW peak[r] = most[r] = 0;
    for (int64_t i = 0; i < n; i++, x += TILE_ROWS) EACH_ROW
        {
            const float size = fabsf(x[r]);
            peak[r] = size > most[r] ? x[r] : peak[r];
            most[r] = size > most[r] ? size : most[r];
        }
}

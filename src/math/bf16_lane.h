/* bf16_lane: one number rounded to bf16, for vector kernels. Only bf16.c, kern_bf16.c and
 * kern_norm.c include it. */
#pragma once
#include "math/kernel.h"
#include <string.h>

/* The bits of an f32, whose upper half is then the number rounded to bf16: to nearest, ties to
 * even; NaN stays. */
KERN_LANE uint32_t lane_bf16_bits(uint32_t bits)
{
    const uint32_t nearest = (bits + 0x7fffu + ((bits >> 16) & 1u)) & 0xffff0000u;
    return (bits & 0x7fffffffu) > 0x7f800000u ? (bits | 0x400000u) & 0xffff0000u : nearest;
}

/* x rounded to bf16. */
KERN_LANE float lane_bf16(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits = lane_bf16_bits(bits);
    memcpy(&x, &bits, sizeof bits);
    return x;
}

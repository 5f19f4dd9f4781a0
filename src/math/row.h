/* row: linear elementwise operations on rows, in the scalar type `real` (math/real.h); the
 * forward pass and the derivatives share them, since the tangent of a linear operation is the
 * operation. One thread each: callers cut the work. T rows of n values, `ld` elements apart. Arrays
 * may coincide; they must not overlap otherwise. */
#pragma once
#include "math/real.h"
#include <stdbool.h>
#include <stdint.h>

/* y (n) = a + b. */
void row_add(real *y, const real *a, const real *b, int64_t n);
/* y (n) += c x. */
void row_axpy(real *y, real c, const real *x, int64_t n);
/* Adds b (n) to every row of y (T, n). */
void row_add_bias(real *y, int64_t ldy, const real *b, int64_t T, int64_t n);
/* y (n) += the sum of the rows of x (T, n), in their order. */
void row_sum(real *y, const real *x, int64_t ldx, int64_t T, int64_t n);
/* Clips every value of y (T, n) to [-c, c]. */
void row_clip(real *y, int64_t ldy, real c, int64_t T, int64_t n);
/* The derivative of clipping: y (T, n) becomes 0 wherever the clipped x (T, n) is -c or c. */
void row_clip_mask(real *y, const real *x, int64_t ld, real c, int64_t T, int64_t n);
/* RoPE in place (Su et al. 2021): in each of `heads` heads, `stride` elements apart in a row,
 * rotates values j and half + j by angle j of the row; cosine, sine (T, half). backward: by the
 * negative angles, which is the transpose. */
void row_rope(real *x, int64_t ld, int64_t heads, int64_t stride, const real *cosine,
              const real *sine, int64_t T, int64_t half, bool backward);

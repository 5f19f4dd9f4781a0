/* kern_bf16: the operations of a forward pass between its products, with results rounded to bf16 as
 * torch rounds them on bf16 tensors: each operation reads bf16 numbers, computes in f32 and rounds
 * (docs/math/products.md). Numbers are stored as f32. Weights are rounded when they are read, so
 * that they may be those of an f32 model. As in kern.h, one thread each, and results depend on
 * nothing but the arguments. */
#pragma once
#include "math/kern.h"
#include <stdbool.h>

/* y (n) = x rounded. y may be x. */
void kern_bf16_round(float *y, const float *x, int64_t n);
/* y (T, n) rounded, after adding b (n) to every row; b NULL: nothing is added. */
void kern_bf16_bias(float *y, int64_t ldy, const float *b, int64_t T, int64_t n);

/* As row_rope forward. between: cosines, sines and products with them are rounded too. */
void kern_bf16_rope(float *x, int64_t ld, int64_t heads, int64_t stride, const float *cosine,
                    const float *sine, int64_t T, int64_t half, bool between);

/* As kern_xielu, of whose formula each operation is rounded. c: bf16 numbers. */
void kern_bf16_xielu(float *y, const float *x, int64_t n, const struct xielu *c);

/* bf16: f32 numbers as sums of bf16 numbers. bf16 has 8 bits of mantissa and f32's exponents, so
 * that every f32 number is the sum of three bf16 numbers: the number rounded, what is then missing
 * rounded, and the rest (docs/math/products.md). One thread each. */
#pragma once
#include <stdint.h>

enum { BF16_TERMS = 3 };

/* terms (n_terms rows of n, `stride` elements apart): x (n) = their sum, with an error of at most
 * 2^-8, 2^-17 or 0 of |x| for one, two or three terms (2^-134 where a term would be subnormal).
 * Rounding is to nearest, ties to even. An infinity or NaN is its first term, the others are 0. */
void bf16_split(uint16_t *terms, int64_t stride, int n_terms, const float *x, int64_t n);

/* Terms that hold every x (n) exactly: 1 to 3. */
int bf16_terms(const float *x, int64_t n);

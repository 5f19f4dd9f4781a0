/* strip: products with strips of up to 64 columns, whose rows may be as far apart as they like.
 * Nothing is copied first, so they are faster than a general product, and every number is one sum
 * in one order. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

enum { STRIP_COLS = 64, STRIP_GRAIN = 16 };

/* y (rows, cols) = or += a (rows, k) b (k, cols). */
struct strip {
    float *y;
    const float *b;
    int64_t rows;
};

/* What the strips of a call share: a, whose element (i, j) is a[i * a_row + j * a_col], and how far
 * rows of y and of b are apart. */
struct strip_factor {
    const float *a;
    int64_t a_row, a_col, k, ldy, ldb;
    int64_t cols; /* a multiple of STRIP_GRAIN, at most STRIP_COLS */
    bool lower;   /* only elements (i, j) with j <= i + shift are not zero; others may be read */
    int64_t shift;
    bool add; /* to y */
};

/* Whether strips are faster than BLAS for GPTQ: with AVX-512 (math/isa.h). Thread-safe. */
bool strip_fast(void);
/* Computes n strips, by the calling thread. A number of y depends on the row of a and the column of
 * b that it is the product of, in f32, and on nothing else: `depth` terms at a time are multiplied
 * and added one after the other, and these sums are added in order. Products and additions are
 * fused with every instruction set but "plain", so the bits are the same. */
void strip_products(const struct strip *s, int n, const struct strip_factor *f, int64_t depth);

/* How many terms GPTQ's products take at a time: so many rows of b, 128 KiB, stay in the second
 * cache while all rows of a strip are computed. */
enum { STRIP_DEPTH = 512 };

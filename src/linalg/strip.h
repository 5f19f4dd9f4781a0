/* strip: products with strips of 64 columns, whose rows may be as far apart as they like. Where the
 * CPU has AVX-512 they are faster than a general product, because nothing is copied first. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

enum { STRIP_COLS = 64 };

/* y (rows, STRIP_COLS) = or += a (rows, k) b (k, STRIP_COLS). */
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
    bool lower; /* only elements (i, j) with j <= i are not zero; others may or may not be read */
    bool add;   /* to y */
};

/* Whether this CPU and build can. Thread-safe. */
bool strip_fast(void);
/* Computes n strips, by the calling thread. Needs strip_fast. A number of y depends on the row of a
 * and the column of b that it is the product of, in f32, and on nothing else. */
void strip_products(const struct strip *s, int n, const struct strip_factor *f);

#include "linalg/strip.h"
#include "tensor/isa.h"
#include "util/num.h"

#ifdef KERNEL_SETS
#include <immintrin.h>

/* A register block is ROWS times STRIP_COLS numbers of y: 24 of the 32 registers. DEPTH rows of b,
 * 128 KiB, stay in the second cache while all rows of a strip are computed. */
enum { LANES = 16, WIDE = STRIP_COLS / LANES, ROWS = 6, DEPTH = 512 };

#define TARGET __attribute__((target("arch=x86-64-v4")))

/* Adds k columns of `rows` rows of a, times as many rows of b. */
TARGET static inline __attribute__((always_inline)) void block(float *y, const float *a,
                                                               const float *b,
                                                               const struct strip_factor *f,
                                                               int64_t k, bool add, const int rows)
{
    const int64_t ldy = f->ldy, ldb = f->ldb, a_row = f->a_row, a_col = f->a_col;
    __m512 sum[ROWS][WIDE];
#pragma GCC unroll 6
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (int j = 0; j < WIDE; j++) sum[i][j] = _mm512_setzero_ps();
    for (int64_t l = 0; l < k; l++, a += a_col, b += ldb) {
        __m512 x[WIDE];
#pragma GCC unroll 4
        for (int j = 0; j < WIDE; j++) x[j] = _mm512_loadu_ps(b + j * LANES);
#pragma GCC unroll 6
        for (int i = 0; i < rows; i++) {
            const __m512 factor = _mm512_set1_ps(a[i * a_row]);
#pragma GCC unroll 4
            for (int j = 0; j < WIDE; j++) sum[i][j] = _mm512_fmadd_ps(factor, x[j], sum[i][j]);
        }
    }
#pragma GCC unroll 6
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (int j = 0; j < WIDE; j++) {
            float *to = y + i * ldy + j * LANES;
            _mm512_storeu_ps(to, add ? _mm512_add_ps(_mm512_loadu_ps(to), sum[i][j]) : sum[i][j]);
        }
}

TARGET static void block_1(float *y, const float *a, const float *b, const struct strip_factor *f,
                           int64_t k, bool add)
{
    block(y, a, b, f, k, add, 1);
}

TARGET static void block_2(float *y, const float *a, const float *b, const struct strip_factor *f,
                           int64_t k, bool add)
{
    block(y, a, b, f, k, add, 2);
}

TARGET static void block_6(float *y, const float *a, const float *b, const struct strip_factor *f,
                           int64_t k, bool add)
{
    block(y, a, b, f, k, add, ROWS);
}

/* Columns [from, to) of a, for all rows. */
static void strip_part(const struct strip *s, const struct strip_factor *f, int64_t from,
                       int64_t to)
{
    const float *a = f->a + from * f->a_col, *b = s->b + from * f->ldb;
    const bool add = f->add || from > 0;
    for (int64_t i = 0, n; i < s->rows; i += n) {
        const int64_t left = s->rows - i;
        n = left >= ROWS ? ROWS : left >= 2 ? 2 : 1;
        const int64_t k = max64((f->lower ? min64(to, i + n) : to) - from, 0);
        if (k == 0 && add) continue;
        (n == ROWS ? block_6
         : n == 2  ? block_2
                   : block_1)(s->y + i * f->ldy, a + i * f->a_row, b, f, k, add);
    }
}

bool strip_fast(void)
{
    return isa_runs(ISA_AVX512);
}

void strip_products(const struct strip *s, int n, const struct strip_factor *f)
{
    int64_t from = 0;
    do {
        const int64_t to = min64(from + DEPTH, f->k);
        for (int i = 0; i < n; i++) strip_part(&s[i], f, from, to);
        from = to;
    } while (from < f->k);
}

#else /* another CPU or compiler */

bool strip_fast(void)
{
    return false;
}

void strip_products(const struct strip *s, int n, const struct strip_factor *f)
{
    (void)s, (void)n, (void)f;
}
#endif

#include "math/panels.h"
#include "math/kernel.h"
#include "util/mem.h"
#include "util/num.h"

/* The innermost loop adds ROWS x COLUMNS products to sums in registers, DEPTH times or fewer: 24 of
 * the 32 registers are sums. Panels of WIDTH columns of the right factor, of DEPTH terms, are
 * copied once for all rows and fit a core's second-level cache; where rows of a turned one begin
 * NEAR numbers apart or fewer, they stay in that cache where they are. Rows of the left factor are
 * read where they are; where it is turned, the next ones are fetched meanwhile. GRAIN: rows that a
 * thread takes at a time. */
enum { ROWS = 8, LANES = 16, VECTORS = 3, COLUMNS = VECTORS * LANES };
enum { DEPTH = 384, WIDTH = 22 * COLUMNS, GRAIN = 64, NEAR = 384 };
/* The same in products of so many multiplications or more; below, BLAS computes them. */
enum { FROM = 1 << 21 };

enum status panels_open(struct panels *p, int64_t threads, struct err *e)
{
    *p = (struct panels){.threads = threads};
    if (!panels_run()) return OK;
    return mem_alloc(&p->right, WIDTH * DEPTH, sizeof *p->right, "panels of a factor", e);
}

void panels_close(struct panels *p)
{
    free(p->right);
    *p = (struct panels){0};
}

int64_t panels_bytes(void)
{
    return panels_run() ? WIDTH * DEPTH * (int64_t)sizeof(float) : 0;
}

bool panels_pay(int64_t m, int64_t n, int64_t k)
{
    return m >= ROWS && n >= COLUMNS && m * n * k >= FROM;
}

static void copy_plainly(float *to, int64_t width, const struct panels_factor *f, int64_t n,
                         int64_t k)
{
    for (int64_t t = 0; t < k; t++)
        for (int64_t i = 0; i < width; i++)
            to[t * width + i] = i >= n ? 0 : f->turned ? f->x[t * f->ld + i] : f->x[i * f->ld + t];
}

#ifdef KERNEL_SETS
#include <immintrin.h>

#define WITH_AVX512 __attribute__((target("arch=x86-64-v4")))
#define WITH_AVX2   __attribute__((target("arch=x86-64-v3")))
#define WITH_BF16   __attribute__((target("arch=x86-64-v4,avx512bf16")))
#define UNROLL      _Pragma("GCC unroll 8")

bool panels_run(void)
{
    return isa_active() == ISA_AVX512;
}

bool panels_run_bf16(void)
{
    return panels_run() && __builtin_cpu_supports("avx512bf16");
}

/* to (8, 8), rows `width` apart, = x (8, 8), rows ld apart, transposed. */
WITH_AVX2 static inline void transpose(float *to, int64_t width, const float *x, int64_t ld)
{
    __m256 a[8], b[8];
    UNROLL for (int i = 0; i < 8; i++) a[i] = _mm256_loadu_ps(x + i * ld);
    UNROLL for (int i = 0; i < 8; i += 2)
    {
        b[i] = _mm256_unpacklo_ps(a[i], a[i + 1]);
        b[i + 1] = _mm256_unpackhi_ps(a[i], a[i + 1]);
    }
    UNROLL for (int i = 0; i < 8; i += 4)
    {
        a[i] = _mm256_shuffle_ps(b[i], b[i + 2], 0x44);
        a[i + 1] = _mm256_shuffle_ps(b[i], b[i + 2], 0xee);
        a[i + 2] = _mm256_shuffle_ps(b[i + 1], b[i + 3], 0x44);
        a[i + 3] = _mm256_shuffle_ps(b[i + 1], b[i + 3], 0xee);
    }
    UNROLL for (int i = 0; i < 4; i++)
    {
        _mm256_storeu_ps(to + i * width, _mm256_permute2f128_ps(a[i], a[i + 4], 0x20));
        _mm256_storeu_ps(to + (i + 4) * width, _mm256_permute2f128_ps(a[i], a[i + 4], 0x31));
    }
}

/* Terms [from, to) of a panel from a turned factor, `width` known where this is inlined. */
WITH_AVX2 static inline __attribute__((always_inline)) void
copy_turned(float *to, const int64_t width, const struct panels_factor *f, int64_t n, int64_t from,
            int64_t end)
{
    for (int64_t t = from; t < end; t++) {
        const float *x = f->x + t * f->ld;
        float *row = to + t * width;
        if (n >= width)
            for (int64_t i = 0; i < width; i += 8)
                _mm256_storeu_ps(row + i, _mm256_loadu_ps(x + i));
        else
            for (int64_t i = 0; i < width; i++) row[i] = i < n ? x[i] : 0;
    }
}

WITH_AVX2 static void copy_panel(float *to, int64_t width, const struct panels_factor *f, int64_t n,
                                 int64_t k)
{
    const int64_t whole = k / 8 * 8, eights = n / 8 * 8;
    if (f->turned) {
        copy_turned(to, width, f, n, 0, k);
        return;
    }
    for (int64_t i = 0; i < eights; i += 8)
        for (int64_t t = 0; t < whole; t += 8)
            transpose(to + t * width + i, width, f->x + i * f->ld + t, f->ld);
    for (int64_t t = 0; t < k; t++)
        for (int64_t i = t < whole ? eights : 0; i < width; i++)
            to[t * width + i] = i < n ? f->x[i * f->ld + t] : 0;
}

void panels_copy(float *to, int64_t width, const struct panels_factor *f, int64_t n, int64_t k)
{
    (isa_active() == ISA_PLAIN ? copy_plainly : copy_panel)(to, width, f, n, k);
}

/* The left factor of a tile: ROWS rows, whose terms are `step` numbers apart. */
struct tile {
    const float *row[ROWS];
    int64_t step;
};
/* A panel: k terms of COLUMNS columns or fewer, `step` numbers apart. */
struct panel {
    const float *x;
    int64_t step;
};

/* sum plus, in each lane, the product of two f32 numbers or of two pairs of bf16 numbers, for which
 * not every CPU with AVX-512 has the instruction. */
WITH_AVX512 static inline __attribute__((always_inline)) __m512
add_products(__m512 sum, __m512 left, __m512 right, const bool pairs)
{
    if (!pairs) return _mm512_fmadd_ps(left, right, sum);
    __asm__("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(left), "v"(right));
    return sum;
}

/* y (ROWS, vectors * LANES) = or += the tile times a panel of k terms, or pairs of terms. */
WITH_AVX512 static inline __attribute__((always_inline)) void
product(float *y, int64_t ldy, const struct tile *a, struct panel b, int64_t k, bool add,
        const bool pairs, const bool turned, const int vectors)
{
    __m512 sum[ROWS][VECTORS];
    const float *row[ROWS];
    const int64_t step = turned ? a->step : 1;
    UNROLL for (int i = 0; i < ROWS; i++)
    {
        row[i] = a->row[i];
        UNROLL for (int j = 0; j < vectors; j++)
        {
            sum[i][j] = _mm512_setzero_ps();
            _mm_prefetch((const char *)(y + i * ldy + j * LANES), _MM_HINT_T0);
        }
    }
    for (int64_t t = 0; t < k * step; t += step, b.x += b.step) {
        __m512 right[VECTORS];
        if (turned) _mm_prefetch((const char *)(row[0] + t + LANES), _MM_HINT_T1);
        UNROLL for (int j = 0; j < vectors; j++) right[j] = _mm512_loadu_ps(b.x + j * LANES);
        UNROLL for (int i = 0; i < ROWS; i++)
        {
            const __m512 left = _mm512_set1_ps(row[i][t]);
            UNROLL for (int j = 0; j < vectors; j++) sum[i][j] =
                add_products(sum[i][j], left, right[j], pairs);
        }
    }
    UNROLL for (int i = 0; i < ROWS; i++) UNROLL for (int j = 0; j < vectors; j++)
    {
        float *to = y + i * ldy + j * LANES;
        if (add) sum[i][j] = _mm512_add_ps(_mm512_loadu_ps(to), sum[i][j]);
        _mm512_storeu_ps(to, sum[i][j]);
    }
}

#define PRODUCT(name, pairs, turned, vectors)                                                      \
    WITH_AVX512 static void name(float *y, int64_t ldy, const struct tile *a, struct panel b,      \
                                 int64_t k, bool add)                                              \
    {                                                                                              \
        product(y, ldy, a, b, k, add, pairs, turned, vectors);                                     \
    }
#define PRODUCTS(name, pairs, turned)                                                              \
    PRODUCT(name##_1, pairs, turned, 1)                                                            \
    PRODUCT(name##_2, pairs, turned, 2)                                                            \
    PRODUCT(name##_3, pairs, turned, 3)
PRODUCTS(product, false, false)
PRODUCTS(turned, false, true)
PRODUCTS(pairs, true, false)
PRODUCTS(turned_pairs, true, true)
typedef void tile_product(float *y, int64_t ldy, const struct tile *a, struct panel b, int64_t k,
                          bool add);
static tile_product *const products[2][2][VECTORS] = {
    {{product_1, product_2, product_3}, {turned_1, turned_2, turned_3}},
    {{pairs_1, pairs_2, pairs_3}, {turned_pairs_1, turned_pairs_2, turned_pairs_3}}};

/* y (rows, n) = or += the tile times a panel, of both of which only so many rows and columns are
 * wanted. */
static void panel_product(float *y, int64_t ldy, const struct tile *a, struct panel b, int64_t rows,
                          int64_t n, int64_t k, bool add, bool pairs)
{
    float sum[ROWS * COLUMNS];
    tile_product *of = products[pairs][a->step > 1][(n - 1) / LANES];
    if (rows == ROWS && n % LANES == 0) {
        of(y, ldy, a, b, k, add);
        return;
    }
    of(sum, COLUMNS, a, b, k, false);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < n; j++)
            y[i * ldy + j] = (add ? y[i * ldy + j] : 0) + sum[i * COLUMNS + j];
}

/* One product, of at most WIDTH columns and DEPTH terms; the panels of b lie in `right`. */
struct block {
    float *y;
    int64_t ldy;
    struct panels_factor a, b;
    int64_t m, n, k;
    bool add, bf16;
};

/* The tile at row i of m; rows beyond the last are the last. */
static struct tile tile_at(const struct panels_factor *a, int64_t i, int64_t m)
{
    struct tile t = {.step = a->turned ? a->ld : 1};
    for (int r = 0; r < ROWS; r++) t.row[r] = panels_part(a, min64(i + r, m - 1), 0).x;
    return t;
}

/* Whether panels of the right factor are read where they are. */
static bool in_place(const struct block *x)
{
    return !x->bf16 && x->b.turned && x->b.ld <= NEAR && x->n % LANES == 0;
}

/* The first n lanes. */
static inline __mmask16 mask_of(int64_t n)
{
    return (__mmask16)(n >= LANES ? 0xffff : (1 << n) - 1);
}

/* to (n / 2) = x (n) rounded to bf16, two numbers in the place of one. */
WITH_BF16 static void round_row(float *to, const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i += 2 * LANES) {
        const int64_t left = n - i, more = max64(left - LANES, 0);
        const __mmask16 low = mask_of(left), high = mask_of(more);
        const __m512bh both = _mm512_cvtne2ps_pbh(_mm512_maskz_loadu_ps(high, x + i + LANES),
                                                  _mm512_maskz_loadu_ps(low, x + i));
        _mm512_mask_storeu_ps(to + i / 2, mask_of(left / 2), (__m512)both);
    }
}

/* to (n) = x (n) and, in the upper halves, y (n), rounded to bf16. */
WITH_BF16 static void round_pairs(float *to, const float *x, const float *y, int64_t n)
{
    for (int64_t i = 0; i < n; i += LANES) {
        const __mmask16 some = mask_of(n - i);
        const __m512i low =
            _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(some, x + i)));
        const __m512i high =
            _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(some, y + i)));
        _mm512_mask_storeu_epi32(to + i, some, _mm512_or_si512(low, _mm512_slli_epi32(high, 16)));
    }
}

/* n rows of a factor rounded to bf16, in `to` (n * k / 2): a number of the result holds two terms
 * of k, which is even. */
static struct panels_factor pairs_of(float *to, const struct panels_factor *f, int64_t n, int64_t k)
{
    for (int64_t i = 0; i < (f->turned ? 0 : n); i++)
        round_row(to + i * k / 2, f->x + i * f->ld, k);
    for (int64_t t = 0; t < (f->turned ? k : 0); t += 2)
        round_pairs(to + t / 2 * n, f->x + t * f->ld, f->x + (t + 1) * f->ld, n);
    return (struct panels_factor){to, f->turned ? n : k / 2, f->turned};
}

/* copy_right of factors that are rounded. All threads call it. */
static void round_right(const struct panels *p, const struct block *x)
{
#pragma omp for schedule(static)
    for (int64_t c = 0; c < x->n; c += COLUMNS) {
        float room[COLUMNS * DEPTH / 2];
        const int64_t n = min64(x->n - c, COLUMNS);
        const struct panels_factor part = panels_part(&x->b, c, 0),
                                   pairs = pairs_of(room, &part, n, x->k);
        panels_copy(p->right + c * x->k / 2, COLUMNS, &pairs, n, x->k / 2);
    }
}

/* Copies the right factor to panels; a turned one TURN terms at a time, so that the matrix's rows
 * are read from end to end. All threads call it. */
WITH_AVX2 static void copy_right(const struct panels *p, const struct block *x)
{
    enum { TURN = 8 };
    if (x->b.turned) {
#pragma omp for schedule(static)
        for (int64_t t = 0; t < x->k; t += TURN)
            for (int64_t c = 0; c < x->n; c += COLUMNS) {
                const struct panels_factor part = panels_part(&x->b, c, 0);
                copy_turned(p->right + c * x->k, COLUMNS, &part, x->n - c, t,
                            min64(t + TURN, x->k));
            }
        return;
    }
#pragma omp for schedule(static)
    for (int64_t c = 0; c < x->n; c += COLUMNS) {
        const struct panels_factor part = panels_part(&x->b, c, 0);
        panels_copy(p->right + c * x->k, COLUMNS, &part, min64(x->n - c, COLUMNS), x->k);
    }
}

static void multiply_block(const struct panels *p, const struct block *x)
{
    const int64_t down = (x->m + GRAIN - 1) / GRAIN, most = (x->n + COLUMNS - 1) / COLUMNS;
    const int64_t across = min64((4 * p->threads + down - 1) / down, most);
    const int64_t width = (most + across - 1) / across * COLUMNS;
    const int64_t terms = x->bf16 ? x->k / 2 : x->k;
    const bool there = in_place(x);
    if (!there) (x->bf16 ? round_right : copy_right)(p, x);
#pragma omp for schedule(dynamic, 1)
    for (int64_t item = 0; item < down * across; item++) {
        const int64_t r = item / across * GRAIN, from = item % across * width;
        const int64_t rows = min64(x->m - r, GRAIN);
        float room[GRAIN * DEPTH / 2];
        struct panels_factor a = panels_part(&x->a, r, 0);
        if (x->bf16) a = pairs_of(room, &a, rows, x->k);
        for (int64_t c = from; c < min64(from + width, x->n); c += COLUMNS) {
            const struct panel b = {there ? x->b.x + c : p->right + c * terms,
                                    there ? x->b.ld : COLUMNS};
            for (int64_t i = 0; i < rows; i += ROWS) {
                const struct tile t = tile_at(&a, i, rows);
                panel_product(x->y + (r + i) * x->ldy + c, x->ldy, &t, b, min64(rows - i, ROWS),
                              min64(x->n - c, COLUMNS), terms, x->add, x->bf16);
            }
        }
    }
}

/* All threads pass the same blocks together. Columns and terms are cut evenly. */
void panels_multiply(struct panels *p, bool bf16, float *y, int64_t ldy,
                     const struct panels_factor *a, const struct panels_factor *b, int64_t m,
                     int64_t n, int64_t k, bool add)
{
    const int64_t parts = (k + DEPTH - 1) / DEPTH, depth = ((k + parts - 1) / parts + 7) / 8 * 8;
    const int64_t cuts = (n + WIDTH - 1) / WIDTH;
    const int64_t width = ((n + cuts - 1) / cuts + COLUMNS - 1) / COLUMNS * COLUMNS;
#pragma omp parallel num_threads(p->threads)
    for (int64_t c = 0; c < n; c += width)
        for (int64_t t = 0; t < k; t += depth) {
            const struct block x = {.y = y + c,
                                    .ldy = ldy,
                                    .a = panels_part(a, 0, t),
                                    .b = panels_part(b, c, t),
                                    .m = m,
                                    .n = min64(n - c, width),
                                    .k = min64(k - t, depth),
                                    .add = add || t > 0,
                                    .bf16 = bf16};
            multiply_block(p, &x);
        }
}

#else /* other compilers and CPUs */

void panels_copy(float *to, int64_t width, const struct panels_factor *f, int64_t n, int64_t k)
{
    copy_plainly(to, width, f, n, k);
}

bool panels_run(void)
{
    return false;
}

bool panels_run_bf16(void)
{
    return false;
}

void panels_multiply(struct panels *p, bool bf16, float *y, int64_t ldy,
                     const struct panels_factor *a, const struct panels_factor *b, int64_t m,
                     int64_t n, int64_t k, bool add)
{
    (void)p, (void)bf16, (void)y, (void)ldy, (void)a, (void)b, (void)m, (void)n, (void)k, (void)add;
}
#endif

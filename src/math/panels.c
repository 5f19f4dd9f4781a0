#include "math/panels.h"
#include "math/kernel.h"
#include "util/mem.h"
#include "util/num.h"
#include <omp.h>
#include <stdlib.h>
#include <string.h>

/* The innermost loop adds ROWS x COLUMNS products to sums in registers, DEPTH times or fewer: 24 of
 * the 32 registers are sums. A block of the left factor, BLOCK x DEPTH, fits a core's second-level
 * cache; a panel of the right factor is read from there or from the first level. WIDTH: columns of
 * the result that stay in the cache while all terms are added. GRAIN: rows that a thread takes at
 * least. */
enum { ROWS = 8, LANES = 16, VECTORS = 3, COLUMNS = VECTORS * LANES };
enum { DEPTH = 384, BLOCK = 512, WIDTH = 64 * COLUMNS, GRAIN = 64 };
/* The same in products of so many multiplications or more; below, BLAS computes them. */
enum { FROM = 1 << 21 };

enum status panels_open(struct panels *p, int64_t threads, struct err *e)
{
    *p = (struct panels){.threads = threads};
    if (!panels_run()) return OK;
    PASS(mem_alloc(&p->left, BLOCK * DEPTH, sizeof *p->left, "a block of a factor", e));
    return mem_alloc(&p->right, threads * COLUMNS * DEPTH, sizeof *p->right, "panels of a factor",
                     e);
}

void panels_close(struct panels *p)
{
    free(p->left);
    free(p->right);
    *p = (struct panels){0};
}

int64_t panels_bytes(int64_t threads)
{
    return panels_run() ? (BLOCK + threads * COLUMNS) * DEPTH * (int64_t)sizeof(float) : 0;
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
#define UNROLL      _Pragma("GCC unroll 8")

bool panels_run(void)
{
    return isa_active() == ISA_AVX512;
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

WITH_AVX2 static void copy_panel(float *to, int64_t width, const struct panels_factor *f, int64_t n,
                                 int64_t k)
{
    const int64_t whole = k / 8 * 8;
    struct panels_factor rest = *f;
    if (n < width) {
        copy_plainly(to, width, f, n, k);
    } else if (f->turned) {
        for (int64_t t = 0; t < k; t++)
            for (int64_t i = 0; i < width; i++) to[t * width + i] = f->x[t * f->ld + i];
    } else {
        for (int64_t i = 0; i < width; i += 8)
            for (int64_t t = 0; t < whole; t += 8)
                transpose(to + t * width + i, width, f->x + i * f->ld + t, f->ld);
        rest.x += whole;
        copy_plainly(to + whole * width, width, &rest, n, k - whole);
    }
}

void panels_copy(float *to, int64_t width, const struct panels_factor *f, int64_t n, int64_t k)
{
    (isa_active() == ISA_PLAIN ? copy_plainly : copy_panel)(to, width, f, n, k);
}

/* y (ROWS, COLUMNS) = or += the product of two panels, a (k, ROWS) and b (k, COLUMNS). */
WITH_AVX512 static void panel_product(float *y, int64_t ldy, const float *a, const float *b,
                                      int64_t k, bool add)
{
    __m512 sum[ROWS][VECTORS];
    UNROLL for (int i = 0; i < ROWS; i++) UNROLL for (int j = 0; j < VECTORS; j++)
    {
        sum[i][j] = _mm512_setzero_ps();
        _mm_prefetch((const char *)(y + i * ldy + j * LANES), _MM_HINT_T0);
    }
    for (int64_t t = 0; t < k; t++, a += ROWS, b += COLUMNS) {
        __m512 row[VECTORS];
        UNROLL for (int j = 0; j < VECTORS; j++) row[j] = _mm512_load_ps(b + j * LANES);
        UNROLL for (int i = 0; i < ROWS; i++)
        {
            const __m512 left = _mm512_set1_ps(a[i]);
            UNROLL for (int j = 0; j < VECTORS; j++) sum[i][j] =
                _mm512_fmadd_ps(left, row[j], sum[i][j]);
        }
    }
    UNROLL for (int i = 0; i < ROWS; i++) UNROLL for (int j = 0; j < VECTORS; j++)
    {
        float *to = y + i * ldy + j * LANES;
        if (add) sum[i][j] = _mm512_add_ps(_mm512_loadu_ps(to), sum[i][j]);
        _mm512_storeu_ps(to, sum[i][j]);
    }
}

/* The same where the result has fewer rows or columns. */
static void edge_product(float *y, int64_t ldy, const float *a, const float *b, int64_t rows,
                         int64_t columns, int64_t k, bool add)
{
    float sum[ROWS * COLUMNS];
    panel_product(sum, COLUMNS, a, b, k, false);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++)
            y[i * ldy + j] = (add ? y[i * ldy + j] : 0) + sum[i * COLUMNS + j];
}

/* y (m, n <= COLUMNS) = or += the block `left`, of m rows, times a panel. */
static void block_product(float *y, int64_t ldy, const float *left, const float *right, int64_t m,
                          int64_t n, int64_t k, bool add)
{
    for (int64_t i = 0; i < m; i += ROWS)
        if (m - i >= ROWS && n == COLUMNS)
            panel_product(y + i * ldy, ldy, left + i * k, right, k, add);
        else
            edge_product(y + i * ldy, ldy, left + i * k, right, min64(m - i, ROWS), n, k, add);
}

/* One block: m <= BLOCK rows, n <= WIDTH columns, k <= DEPTH terms. A thread takes a panel of the
 * right factor and, where there are few of them, some of the rows. */
static void multiply_block(struct panels *p, float *y, int64_t ldy, const struct panels_factor *a,
                           const struct panels_factor *b, int64_t m, int64_t n, int64_t k, bool add)
{
    const int64_t across = (n + COLUMNS - 1) / COLUMNS, most = (m + GRAIN - 1) / GRAIN;
    const int64_t down = min64((4 * p->threads + across - 1) / across, most);
    const int64_t grain = ((m + down - 1) / down + ROWS - 1) / ROWS * ROWS;
#pragma omp parallel num_threads(p->threads)
    {
        float *right = p->right + omp_get_thread_num() * COLUMNS * DEPTH;
#pragma omp for schedule(static)
        for (int64_t i = 0; i < m; i += ROWS) {
            const struct panels_factor part = panels_part(a, i, 0);
            panels_copy(p->left + i * k, ROWS, &part, min64(m - i, ROWS), k);
        }
#pragma omp for schedule(dynamic, 1)
        for (int64_t i = 0; i < across * down; i++) {
            const int64_t c = i / down * COLUMNS, r = i % down * grain;
            const struct panels_factor part = panels_part(b, c, 0);
            if (r >= m) continue;
            panels_copy(right, COLUMNS, &part, min64(n - c, COLUMNS), k);
            block_product(y + r * ldy + c, ldy, p->left + r * k, right, min64(m - r, grain),
                          min64(n - c, COLUMNS), k, add);
        }
    }
}

void panels_multiply(struct panels *p, float *y, int64_t ldy, const struct panels_factor *a,
                     const struct panels_factor *b, int64_t m, int64_t n, int64_t k, bool add)
{
    const int64_t parts = (k + DEPTH - 1) / DEPTH, depth = ((k + parts - 1) / parts + 7) / 8 * 8;
    for (int64_t r = 0; r < m; r += BLOCK)
        for (int64_t c = 0; c < n; c += WIDTH)
            for (int64_t t = 0; t < k; t += depth) {
                const struct panels_factor left = panels_part(a, r, t),
                                           right = panels_part(b, c, t);
                multiply_block(p, y + r * ldy + c, ldy, &left, &right, min64(m - r, BLOCK),
                               min64(n - c, WIDTH), min64(k - t, depth), add || t > 0);
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

void panels_multiply(struct panels *p, float *y, int64_t ldy, const struct panels_factor *a,
                     const struct panels_factor *b, int64_t m, int64_t n, int64_t k, bool add)
{
    (void)p, (void)y, (void)ldy, (void)a, (void)b, (void)m, (void)n, (void)k, (void)add;
}
#endif

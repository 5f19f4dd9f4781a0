#include "math/mat_products.h"
#include "math/bf16.h"
#include "math/matmul.h"
#include "math/row.h"
#include "util/mem.h"
#include "util/num.h"
#include <omp.h>

/* Side of a tile of the result, which one thread multiplies at a time; terms of a sum in one
 * product; elements of a factor that are split at a time: enough for splitting one factor to cost
 * little beside the product with the other. They are constants, so that the bits depend on the
 * shapes alone. */
enum { TILE = 256, DEPTH = 4096, BLOCK = 1 << 22 };
/* Rows and terms of a factor that one thread turns at a time: whole cache lines on both sides, and
 * at most a tile. */
enum { STRIP = 64, RUN = 1024, LINE = 16 };
_Static_assert(STRIP *RUN <= TILE * TILE, "a strip does not fit a tile's buffer");

static enum products real_kind(enum products kind)
{
    return sizeof(real) == sizeof(float) ? kind : PRODUCTS_F32;
}

/* Whether products of that kind are those of panels.h that round to bf16: without matrix units they
 * are faster than oneDNN's. */
static bool rounds_in_panels(enum products kind)
{
    return kind == PRODUCTS_BF16 && panels_run_bf16() && products_native() &&
           products_resolve(PRODUCTS_AUTO) == PRODUCTS_F32;
}

/* Products of that kind or of its sums, of which some may be in f32. */
static bool has_panels(enum products kind)
{
    const enum products real_of = real_kind(kind);
    return sizeof(real) == sizeof(float) && (real_of == PRODUCTS_F32 || rounds_in_panels(real_of) ||
                                             products_of_sums(real_of) == PRODUCTS_F32);
}

enum status mat_work_open(struct mat_work *w, enum products kind, struct mat_largest largest,
                          int64_t threads, struct err *e)
{
    const int64_t left = min64(largest.left, BLOCK), right = min64(largest.right, BLOCK);
    memset(w, 0, sizeof *w);
    w->of_weights = real_kind(kind);
    w->of_sums = products_of_sums(w->of_weights);
    w->threads = threads;
    if (has_panels(kind)) PASS(panels_open(&w->panels, threads, e));
    if (w->of_weights == PRODUCTS_F32) return OK;
    PASS(mem_alloc(&w->right, right, sizeof *w->right, "a factor", e));
    PASS(mem_alloc(&w->left, products_terms(w->of_weights) * left, sizeof *w->left,
                   "terms of a factor", e));
    return mem_alloc(&w->tile, threads * TILE * TILE, sizeof *w->tile, "tiles of products", e);
}

void mat_work_close(struct mat_work *w)
{
    free(w->right);
    free(w->left);
    free(w->tile);
    panels_close(&w->panels);
    memset(w, 0, sizeof *w);
}

int64_t mat_work_bytes(enum products kind, struct mat_largest largest, int64_t threads)
{
    const int64_t left = min64(largest.left, BLOCK), right = min64(largest.right, BLOCK);
    const int64_t terms = products_terms(real_kind(kind));
    const int64_t panels = has_panels(kind) ? panels_bytes() : 0;
    if (terms == 0) return panels;
    return panels + right * (int64_t)sizeof(float) + terms * left * (int64_t)sizeof(uint16_t) +
           product_weights_bytes(kind, right) + threads * TILE * TILE * (int64_t)sizeof(float);
}

enum status mat_work_check(struct mat_work *w, struct err *e)
{
    const struct err failure = w->failure;
    err_clear(&w->failure);
    NEED(failure.code == OK, failure.code, "%s", failure.text);
    return OK;
}

#ifndef QTRAJ_REAL_F64
/* to (n, k), rows `pitch` apart, = the factor's first n rows. One thread. */
static void copy_rows(float *to, int64_t pitch, const struct panels_factor *f, int64_t n, int64_t k)
{
    for (int64_t i = 0; i < n && !f->turned; i++)
        memcpy(to + i * pitch, f->x + i * f->ld, (size_t)k * sizeof *to);
    for (int64_t t = 0; t < k && f->turned; t += LINE)
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = t; j < min64(t + LINE, k); j++)
                to[i * pitch + j] = f->x[j * f->ld + i];
}

static enum status take_right(struct mat_work *w, enum products kind, const struct panels_factor *f,
                              int64_t n, int64_t k, struct product_weights **out)
{
    const bool dense = !f->turned && f->ld == k;
#pragma omp parallel for collapse(2) schedule(static) num_threads(w->threads)
    for (int64_t i = 0; i < (dense ? 0 : n); i += STRIP)
        for (int64_t t = 0; t < k; t += RUN) {
            const struct panels_factor part = panels_part(f, i, t);
            copy_rows(w->right + i * k + t, k, &part, min64(n - i, STRIP), min64(k - t, RUN));
        }
    return product_weights_make(kind, dense ? f->x : w->right, n, k, TILE, out, &w->failure);
}

static void take_left(struct mat_work *w, enum products kind, const struct panels_factor *f,
                      int64_t m, int64_t k)
{
#pragma omp parallel for collapse(2) schedule(static) num_threads(w->threads)
    for (int64_t i = 0; i < m; i += STRIP)
        for (int64_t t = 0; t < k; t += RUN) {
            struct panels_factor part = panels_part(f, i, t);
            const int64_t n = min64(m - i, STRIP), run = min64(k - t, RUN);
            float *turned = w->tile + omp_get_thread_num() * TILE * TILE;
            if (part.turned) {
                copy_rows(turned, run, &part, n, run);
                part = (struct panels_factor){turned, run, false};
            }
            for (int64_t r = 0; r < n; r++)
                bf16_split(w->left + (i + r) * k + t, m * k, products_terms(kind),
                           part.x + r * part.ld, run);
        }
}

/* y (m, n) = or += the block in w->left times the one on the right. */
static void multiply(struct mat_work *w, enum products kind, float *y, int64_t ldy,
                     const struct product_weights *right, int64_t m, int64_t n, int64_t k, bool add)
{
    const int64_t across = (n + TILE - 1) / TILE, down = (m + TILE - 1) / TILE;
#pragma omp parallel for schedule(dynamic, 1) num_threads(w->threads)
    for (int64_t i = 0; i < across * down; i++) {
        const int64_t r = i / across * TILE, c = i % across * TILE;
        const int64_t rows = min64(m - r, TILE), cols = min64(n - c, TILE);
        float *to = y + r * ldy + c, *tile = w->tile + omp_get_thread_num() * TILE * TILE;
        product_nt(kind, add ? tile : to, add ? cols : ldy, w->left + r * k, m * k, right, c / TILE,
                   rows);
        for (int64_t t = 0; t < rows && add; t++)
            row_add(to + t * ldy, to + t * ldy, tile + t * cols, cols);
    }
}

static void terms_product(struct mat_work *w, enum products kind, float *y, int64_t ldy,
                          const struct panels_factor *a, const struct panels_factor *b, int64_t m,
                          int64_t n, int64_t k, bool add)
{
    const int64_t most = BLOCK / k / TILE * TILE; /* rows that are split at a time */
    for (int64_t c = 0; c < n; c += most) {
        const struct panels_factor right = panels_part(b, c, 0);
        const int64_t cols = min64(n - c, most);
        struct product_weights *taken = NULL;
        if (take_right(w, kind, &right, cols, k, &taken) != OK) return;
        for (int64_t r = 0; r < m; r += most) {
            const struct panels_factor left = panels_part(a, r, 0);
            const int64_t rows = min64(m - r, most);
            take_left(w, kind, &left, rows, k);
            multiply(w, kind, y + r * ldy + c, ldy, taken, rows, cols, k, add);
        }
        product_weights_free(taken);
    }
}

static void product(struct mat_work *w, enum mat_form form, enum products kind, float *y,
                    int64_t ldy, const float *a, int64_t lda, const float *b, int64_t ldb,
                    int64_t m, int64_t n, int64_t k, bool add)
{
    const struct panels_factor left = {a, lda, form == MAT_TN}, right = {b, ldb, form != MAT_NT};
    const bool rounded = rounds_in_panels(kind) && k % 2 == 0;
    if ((rounded || (kind == PRODUCTS_F32 && panels_run())) && panels_pay(m, n, k)) {
        panels_multiply(&w->panels, rounded, y, ldy, &left, &right, m, n, k, add);
        return;
    }
    if (kind == PRODUCTS_F32) {
        mat_tiles(form, y, ldy, a, lda, b, ldb, m, n, k, add);
        return;
    }
    for (int64_t t = 0; t < k && w->failure.code == OK; t += DEPTH) {
        const struct panels_factor l = panels_part(&left, 0, t), r = panels_part(&right, 0, t);
        terms_product(w, kind, y, ldy, &l, &r, m, n, min64(k - t, DEPTH), add || t > 0);
    }
}

#else /* f64 */

static void product(struct mat_work *w, enum mat_form form, enum products kind, double *y,
                    int64_t ldy, const double *a, int64_t lda, const double *b, int64_t ldb,
                    int64_t m, int64_t n, int64_t k, bool add)
{
    (void)w, (void)kind;
    mat_tiles(form, y, ldy, a, lda, b, ldb, m, n, k, add);
}
#endif

void mat_with_weights(struct mat_work *w, enum mat_form form, real *y, int64_t ldy, const real *a,
                      int64_t lda, const real *b, int64_t ldb, int64_t m, int64_t n, int64_t k,
                      bool add)
{
    product(w, form, w->of_weights, y, ldy, a, lda, b, ldb, m, n, k, add);
}

void mat_add_product(struct mat_work *w, enum mat_form form, real *y, int64_t ldy, const real *a,
                     int64_t lda, const real *b, int64_t ldb, int64_t m, int64_t n, int64_t k)
{
    product(w, form, w->of_sums, y, ldy, a, lda, b, ldb, m, n, k, true);
}

/* Products of matrices that are split block by block, against sums in f64: every form and kind,
 * shapes that are cut in every dimension, added to what is there or not, and the same bits for any
 * number of threads. */
#include "math/linalg.h"
#include "math/mat_products.h"
#include "math/matmul.h"
#include <math.h>
#include <omp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "noise.h"

/* Not cut; tiles and strips with rests; long sums; rows of either factor in two blocks; the blocks
 * and panels of products in f32, with rests; of those that round to bf16, too. */
static const struct shape {
    int64_t m, n, k;
} shapes[] = {{1, 1, 1},       {33, 17, 20},    {260, 40, 35},   {40, 530, 30},
              {5, 18, 4100},   {2, 1030, 4096}, {1030, 3, 4096}, {523, 53, 787},
              {17, 3130, 401}, {203, 112, 401}, {523, 53, 786},  {19, 3130, 400}};
enum { N_SHAPES = sizeof shapes / sizeof *shapes, PADDING = 3 };

/* A factor with rows that are PADDING apart. */
struct factor {
    float *x;
    int64_t ld, row, k; /* distances of numbers in neighbouring rows and terms of the sum */
};

static struct factor factor_new(int64_t rows, int64_t k, bool turned, uint64_t seed)
{
    const int64_t ld = (turned ? rows : k) + PADDING;
    return (struct factor){noise((turned ? k : rows) * ld, seed), ld, turned ? 1 : ld,
                           turned ? ld : 1};
}

static struct mat_work work_for(enum products kind, int threads)
{
    struct err e = {0};
    struct mat_work w;
    assert_int_equal(mat_work_open(&w, kind, (struct mat_largest){1 << 23, 1 << 23}, threads, &e),
                     OK);
    w.of_sums = kind; /* without matrix units they stay in f32 */
    return w;
}

/* y (m, n), with rows PADDING apart, was 1 everywhere. */
static float *product(struct mat_work *w, enum mat_form form, const struct shape *s,
                      const struct factor *a, const struct factor *b, bool weights, bool add)
{
    const int64_t ldy = s->n + PADDING;
    struct err e = {0};
    float *y = noise(s->m * ldy, 1);
    for (int64_t i = 0; i < s->m * ldy; i++) y[i] = 1;
    if (weights)
        mat_with_weights(w, form, y, ldy, a->x, a->ld, b->x, b->ld, s->m, s->n, s->k, add);
    else
        mat_add_product(w, form, y, ldy, a->x, a->ld, b->x, b->ld, s->m, s->n, s->k);
    assert_int_equal(mat_work_check(w, &e), OK);
    for (int64_t i = 0; i < s->m * PADDING; i++)
        assert_true(y[i / PADDING * ldy + s->n + i % PADDING] == 1);
    return y;
}

/* Of each number of the product: its value, and the sum of the sizes of what is added. */
struct expected {
    double sum, size;
};

static struct expected *sums_of(const struct shape *s, const struct factor *a,
                                const struct factor *b)
{
    struct expected *out = calloc((size_t)(s->m * s->n), sizeof *out);
    assert_non_null(out);
    for (int64_t i = 0; i < s->m; i++)
        for (int64_t j = 0; j < s->n; j++) {
            struct expected *of = out + i * s->n + j;
            for (int64_t t = 0; t < s->k; t++) {
                const double one =
                    (double)a->x[i * a->row + t * a->k] * (double)b->x[j * b->row + t * b->k];
                of->sum += one;
                of->size += fabs(one);
            }
        }
    return out;
}

/* The largest error relative to the size; `before` was there. */
static double worst_error(const float *y, const struct shape *s, const struct expected *of,
                          double before)
{
    double worst = 0;
    for (int64_t i = 0; i < s->m; i++)
        for (int64_t j = 0; j < s->n; j++, of++)
            worst = fmax(worst, fabs((double)y[i * (s->n + PADDING) + j] - (before + of->sum)) /
                                    (before + of->size));
    return worst;
}

/* docs/math/products.md: of a product of two numbers that are not exact in one term; two kinds of
 * bf16 are not f32 by mistake. */
static const double bound[] = {[PRODUCTS_F32] = 0,
                               [PRODUCTS_BF16X3] = 0x1p-23,
                               [PRODUCTS_BF16X2] = 0x1p-15,
                               [PRODUCTS_BF16] = 0x1p-7 + 0x1p-16};

static void check(enum products kind, enum mat_form form, const struct shape *s,
                  const struct factor *a, const struct factor *b, const struct expected *of)
{
    struct mat_work w = work_for(kind, omp_get_max_threads());
    const double sums = 0x1p-24 * ((double)s->k + 8);
    for (int how = 0; how < 3; how++) {
        const bool weights = how < 2, add = how != 0;
        float *y = product(&w, form, s, a, b, weights, add);
        const double error = worst_error(y, s, of, add ? 1 : 0);
        if (error > bound[kind] + sums)
            fail_msg("%s, form %d, (%lld, %lld, %lld): error %g", products_words[kind], form,
                     (long long)s->m, (long long)s->n, (long long)s->k, error);
        if (kind == PRODUCTS_BF16 && s->m * s->n > 1) assert_true(error > 0x1p-15);
        free(y);
    }
    mat_work_close(&w);
}

static void within_bounds(void **state)
{
    (void)state;
    for (int form = MAT_NT; form <= MAT_TN; form++)
        for (int i = 0; i < N_SHAPES; i++) {
            const struct shape *s = &shapes[i];
            const struct factor a = factor_new(s->m, s->k, form == MAT_TN, 3),
                                b = factor_new(s->n, s->k, form != MAT_NT, 5);
            struct expected *of = sums_of(s, &a, &b);
            for (enum products kind = PRODUCTS_F32; kind < PRODUCTS_AUTO; kind++)
                check(kind, (enum mat_form)form, s, &a, &b, of);
            free(of);
            free(a.x);
            free(b.x);
        }
}

static void same_bits(enum products kind)
{
    const struct shape s = {300, 530, 270};
    for (int form = MAT_NT; form <= MAT_TN; form++) {
        const struct factor a = factor_new(s.m, s.k, form == MAT_TN, 3),
                            b = factor_new(s.n, s.k, form != MAT_NT, 5);
        struct mat_work one = work_for(kind, 1), three = work_for(kind, 3);
        float *x = product(&one, (enum mat_form)form, &s, &a, &b, true, true);
        float *y = product(&three, (enum mat_form)form, &s, &a, &b, true, true);
        assert_memory_equal(x, y, sizeof *x * (size_t)(s.m * (s.n + PADDING)));
        free(x), free(y), free(a.x), free(b.x);
        mat_work_close(&one);
        mat_work_close(&three);
    }
}

static void any_threads(void **state)
{
    (void)state;
    same_bits(PRODUCTS_BF16X2);
    same_bits(PRODUCTS_F32);
    same_bits(PRODUCTS_BF16);
}

/* A failure stops the products after it and is reported once. */
static void failure_is_kept(void **state)
{
    (void)state;
    const struct shape s = {2, 2, 2};
    const struct factor a = factor_new(2, 2, false, 3), b = factor_new(2, 2, false, 5);
    struct mat_work w = work_for(PRODUCTS_BF16, 1);
    struct err e = {0};
    float y[2 * (2 + PADDING)] = {7};
    err_set(&w.failure, ERR_NOMEM, __FILE__, __LINE__, "no memory");
    mat_with_weights(&w, MAT_NT, y, 2 + PADDING, a.x, a.ld, b.x, b.ld, 2, 2, 2, false);
    assert_true(y[0] == 7);
    assert_int_equal(mat_work_check(&w, &e), ERR_NOMEM);
    assert_non_null(strstr(e.text, "no memory"));
    free(product(&w, MAT_NT, &s, &a, &b, true, false));
    free(a.x);
    free(b.x);
    mat_work_close(&w);
}

static void work_takes_the_bytes_that_are_counted(void **state)
{
    (void)state;
    const struct mat_largest small = {1000, 2000}, large = {INT64_C(1) << 40, INT64_C(1) << 40};
    assert_int_equal(mat_work_bytes(PRODUCTS_F32, small, 2), panels_bytes());
    assert_true(mat_work_bytes(PRODUCTS_BF16, small, 2) > 1000 * 2 + 2000 * 6);
    assert_true(mat_work_bytes(PRODUCTS_BF16X3, small, 2) >
                mat_work_bytes(PRODUCTS_BF16, small, 2));
    /* Factors are split a block at a time. */
    assert_true(mat_work_bytes(PRODUCTS_BF16X3, large, 2) < 256 << 20);
}

int main(void)
{
    linalg_setup();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(within_bounds), cmocka_unit_test(any_threads),
        cmocka_unit_test(failure_is_kept), cmocka_unit_test(work_takes_the_bytes_that_are_counted)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

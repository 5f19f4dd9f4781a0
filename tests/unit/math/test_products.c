/* Products in bf16 terms against sums in f64: the bound of each kind, the number of terms that
 * weights take, the same bits for any number of threads, and non-finite inputs. They hold with
 * oneDNN and without (tests/tests.cmake runs this program both ways; PRODUCTS_WITHOUT: linked as in
 * a build without oneDNN). */
#include "math/bf16.h"
#include "math/dtype.h"
#include "math/isa.h"
#include "math/linalg.h"
#include "math/matmul.h"
#include "math/onednn.h"
#include "math/products.h"
#include "util/mem.h"
#include <math.h>
#include <omp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static float *noise(int64_t n, uint64_t seed)
{
    float *x;
    assert_int_equal(mem_alloc(&x, n, sizeof *x, "noise", NULL), OK);
    for (int64_t i = 0; i < n; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        x[i] = (float)((double)(seed >> 40) / (1 << 23) - 1.0) * (i % 97 ? 1.0f : 30.0f);
    }
    return x;
}

/* Rounds x (n) to the sum of so many bf16 terms. */
static void keep_terms(float *x, int64_t n, int terms)
{
    uint16_t t[BF16_TERMS];
    for (int64_t i = 0; i < n; i++) {
        float sum = 0;
        bf16_split(t, 1, terms, x + i, 1);
        for (int k = 0; k < terms; k++) {
            float wide;
            dtype_widen(&wide, &t[k], DTYPE_BF16, 1);
            sum += wide;
        }
        x[i] = sum;
    }
}

struct shape {
    int64_t m, n, k, piece;
};

/* The sums of product_plain, in the order that sums.h states. */
static float sum_of(const float *x, const float *w, int64_t k)
{
    const int64_t depth = k <= 1024 ? 512 : 1024;
    float y = 0;
    for (int64_t t = 0; t < k; t += depth) {
        float part = 0;
        for (int64_t i = t; i < k && i < t + depth; i++)
            part = isa_active() == ISA_PLAIN ? part + x[i] * w[i] : fmaf(x[i], w[i], part);
        y = t == 0 ? part : y + part;
    }
    return y;
}

/* Products in f32 of any number of rows and columns, as oneDNN and as the own loops of each set
 * compute them, have the same bits. */
static void rows_alone(void **state)
{
    (void)state;
    const int64_t rows[] = {1, 2, 7, 31, 32, 100}, k[] = {1, 33, 512, 530, 1024, 2060};
    const int64_t n = 81, cols[] = {1, 16, 50, 64, 81};
    const enum isa before = isa_active();
    for (int i = 0; i < 6; i++) {
        float *x = noise(100 * k[i], 1), *w = noise(n * k[i], 2), *y = noise(100 * (n + 2), 3);
        for (int isa = ISA_N - 1; isa >= (onednn_found()->f32 ? ISA_AVX2 : ISA_PLAIN); isa--) {
            if (!isa_runs((enum isa)isa)) continue;
            isa_use((enum isa)isa);
            for (int a = 0; a < 6 * 5; a++) {
                const int64_t m = rows[a / 5], c = cols[a % 5], from = 100 - m, at = n - c;
                product_plain(y, c + 2, x + from * k[i], w + at * k[i], m, c, k[i]);
                for (int64_t r = 0; r < m; r += 1 + m / 3)
                    for (int64_t j = 0; j < c; j++)
                        assert_true(y[r * (c + 2) + j] ==
                                    sum_of(x + (from + r) * k[i], w + (at + j) * k[i], k[i]));
            }
        }
        isa_use(before);
        free(x), free(w), free(y);
    }
}

/* Prepared weights in f32 give the bits of product_plain, with a bias and without, in results with
 * gaps between the rows and without. */
static void prepared_f32(void **state)
{
    (void)state;
    const struct shape shapes[] = {{128, 512, 1300, 128}, {77, 700, 300, 256}, {64, 512, 96, 512}};
    for (int i = 0; i < 6 && products_prepare(PRODUCTS_F32); i++) {
        const struct shape s = shapes[i / 2];
        const int64_t ldy = s.n + (i == 4 ? 0 : 3);
        struct err e = {0};
        struct product_weights *p = NULL;
        float *x = noise(s.m * s.k, 1), *w = noise(s.n * s.k, 2), *bias = noise(s.n, 3);
        float *y = noise(s.m * ldy, 4), *want = noise(s.m * ldy, 4);
        assert_int_equal(product_weights_make(PRODUCTS_F32, w, s.n, s.k, s.piece, &p, &e), OK);
        assert_true(product_weights_size(p, 1) >= s.n * s.k * (int64_t)sizeof(float));
        for (int64_t r = 0; r < s.n; r += s.piece) {
            const int64_t n = s.n - r < s.piece ? s.n - r : s.piece;
            assert_true(mat_large(s.m, n, s.k));
            product_plain(want + r, ldy, x, w + r * s.k, s.m, n, s.k);
            for (int64_t t = 0; t < s.m * n && i % 2; t++)
                want[t / n * ldy + r + t % n] += bias[r + t % n];
            product_nt_f32(y + r, ldy, x, p, r / s.piece, s.m, i % 2 ? bias + r : NULL);
        }
        assert_memory_equal(y, want, s.m * ldy * (int64_t)sizeof *y);
        product_weights_free(p);
        free(x), free(w), free(bias), free(y), free(want);
    }
}

/* y (m, n), rows n + 3 apart, all pieces one after the other. */
static float *multiply(enum products kind, struct shape s, const float *x, const float *w,
                       int *weight_terms)
{
    struct err e = {0};
    struct product_weights *p = NULL;
    const int terms = products_terms(kind);
    const int64_t ldy = s.n + 3;
    uint16_t *split;
    float *y;
    assert_int_equal(mem_alloc(&split, terms * s.m * s.k, sizeof *split, "terms", NULL), OK);
    assert_int_equal(mem_alloc(&y, s.m * ldy, sizeof *y, "y", NULL), OK);
    for (int64_t i = 0; i < s.m * ldy; i++) y[i] = 42; /* is overwritten, not added to */
    bf16_split(split, s.m * s.k, terms, x, s.m * s.k);
    assert_int_equal(product_weights_make(kind, w, s.n, s.k, s.piece, &p, &e), OK);
    if (weight_terms) *weight_terms = product_weights_terms(p);
#pragma omp parallel for
    for (int64_t r = 0; r < s.n; r += s.piece)
        product_nt(kind, y + r, ldy, split, s.m * s.k, p, r / s.piece, s.m);
    for (int64_t t = 0; t < s.m; t++) assert_true(y[t * ldy + s.n] == 42);
    product_weights_free(p);
    free(split);
    return y;
}

/* Largest error in units of the sum of the products' sizes, plain: as mat_gemm computes it. */
static double worst_error(const float *y, int64_t ldy, struct shape s, const float *x,
                          const float *w)
{
    double worst = 0;
    for (int64_t t = 0; t < s.m; t++)
        for (int64_t j = 0; j < s.n; j++) {
            double sum = 0, size = 0;
            for (int64_t k = 0; k < s.k; k++) {
                const double product = (double)x[t * s.k + k] * (double)w[j * s.k + k];
                sum += product;
                size += fabs(product);
            }
            worst = fmax(worst, fabs((double)y[t * ldy + j] - sum) / size);
        }
    return worst;
}

static const struct shape shapes[] = {{1, 1, 1, 1},     {3, 5, 7, 5},       {17, 48, 33, 16},
                                      {64, 96, 64, 48}, {130, 65, 300, 64}, {37, 200, 576, 112}};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };

/* docs/math/products.md: the largest relative error of a product of two numbers, whose weights are
 * exact in one term or not; sums in f32 add their own. */
static const struct bound {
    enum products kind;
    double exact, inexact;
} bounds[] = {{PRODUCTS_BF16X3, 0, 0x1p-23},
              {PRODUCTS_BF16X2, 0x1p-17, 0x1p-15},
              {PRODUCTS_BF16, 0x1p-8, 0x1p-7 + 0x1p-16}};

static void within_bounds(void **state)
{
    (void)state;
    for (size_t b = 0; b < sizeof bounds / sizeof *bounds; b++)
        for (int i = 0; i < N_SHAPES; i++)
            for (int exact = 0; exact < 2; exact++) {
                const struct shape s = shapes[i];
                int terms;
                float *x = noise(s.m * s.k, 5), *w = noise(s.n * s.k, 7);
                if (exact) keep_terms(w, s.n * s.k, 1);
                float *y = multiply(bounds[b].kind, s, x, w, &terms);
                const double sums = 0x1p-24 * ((double)s.k + 8);
                const double bound = (exact ? bounds[b].exact : bounds[b].inexact) + sums;
                const double error = worst_error(y, s.n + 3, s, x, w);
                if (error > bound)
                    fail_msg("%s, shape %d: error %g, bound %g", products_words[bounds[b].kind], i,
                             error, bound);
                if (exact) assert_int_equal(terms, 1);
                free(x), free(w), free(y);
            }
}

/* Three terms are as good as f32, two and one are not: each kind is computed with its own terms. */
static void kinds_differ(void **state)
{
    (void)state;
    const struct shape s = {96, 64, 512, 64};
    float *x = noise(s.m * s.k, 11), *w = noise(s.n * s.k, 13), *plain;
    double error[PRODUCTS_AUTO];
    keep_terms(w, s.n * s.k, 1);
    assert_int_equal(mem_alloc(&plain, s.m * s.n, sizeof *plain, "y", NULL), OK);
    mat_gemm(MAT_NT, plain, s.n, x, s.k, w, s.k, s.m, s.n, s.k, 0);
    error[PRODUCTS_F32] = worst_error(plain, s.n, s, x, w);
    for (enum products kind = PRODUCTS_BF16X3; kind < PRODUCTS_AUTO; kind++) {
        float *y = multiply(kind, s, x, w, NULL);
        error[kind] = worst_error(y, s.n + 3, s, x, w);
        free(y);
    }
    assert_true(error[PRODUCTS_BF16X3] < 4 * error[PRODUCTS_F32]);
    assert_true(error[PRODUCTS_BF16X2] < 0x1p-17);
    assert_true(error[PRODUCTS_BF16] > 0x1p-15);
    assert_true(error[PRODUCTS_BF16] < 0x1p-8);
    free(x), free(w), free(plain);
}

static void terms_of_weights(void **state)
{
    (void)state;
    const struct shape s = {4, 40, 64, 16};
    static const struct {
        int exact;
        enum products kind;
        int terms;
    } cases[] = {{1, PRODUCTS_BF16X3, 1}, {2, PRODUCTS_BF16X3, 2}, {3, PRODUCTS_BF16X3, 3},
                 {3, PRODUCTS_BF16X2, 2}, {1, PRODUCTS_BF16X2, 1}, {3, PRODUCTS_BF16, 1}};
    float *x = noise(s.m * s.k, 3);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int terms;
        float *w = noise(s.n * s.k, 17);
        keep_terms(w, s.n * s.k, cases[i].exact);
        float *y = multiply(cases[i].kind, s, x, w, &terms);
        assert_int_equal(terms, cases[i].terms);
        free(w), free(y);
    }
    free(x);
}

/* The same bits on one thread and on several, inside a parallel region and outside, and for rows
 * that are multiplied again. */
static void any_threads(void **state)
{
    (void)state;
    const struct shape s = {200, 192, 576, 64};
    float *x = noise(s.m * s.k, 19), *w = noise(s.n * s.k, 23);
    const int before = omp_get_max_threads();
    for (enum products kind = PRODUCTS_BF16X3; kind < PRODUCTS_AUTO; kind++) {
        float *one = NULL;
        for (int threads = 1; threads <= 4; threads++) {
            omp_set_num_threads(threads);
            float *y = multiply(kind, s, x, w, NULL);
            assert_int_equal(omp_get_max_threads(), threads); /* it is left as it was */
            if (one) assert_memory_equal(y, one, sizeof *y * (size_t)(s.m * (s.n + 3)));
            if (one)
                free(y);
            else
                one = y;
        }
        free(one);
    }
    omp_set_num_threads(before);
    free(x), free(w);
}

/* An infinite or undefined input spoils its own row alone. */
static void not_finite(void **state)
{
    (void)state;
    const struct shape s = {3, 32, 64, 32};
    float *x = noise(s.m * s.k, 29), *w = noise(s.n * s.k, 31);
    keep_terms(w, s.n * s.k, 1);
    float *good = multiply(PRODUCTS_BF16X3, s, x, w, NULL);
    x[5] = INFINITY;
    x[s.k + 5] = NAN;
    float *y = multiply(PRODUCTS_BF16X3, s, x, w, NULL);
    for (int64_t j = 0; j < s.n; j++) {
        assert_false(isfinite(y[j]));
        assert_true(isnan(y[s.n + 3 + j]));
        assert_true(y[2 * (s.n + 3) + j] == good[2 * (s.n + 3) + j]);
    }
    free(x), free(w), free(good), free(y);
}

static void auto_takes_what_the_cpu_has(void **state)
{
    (void)state;
    for (enum products kind = PRODUCTS_F32; kind < PRODUCTS_AUTO; kind++)
        assert_int_equal(products_resolve(kind), kind);
    const enum products best = products_resolve(PRODUCTS_AUTO);
    assert_true(best == PRODUCTS_F32 || (best == PRODUCTS_BF16X3 && products_native()));
    assert_true(products_native() == (strstr(products_unit(PRODUCTS_BF16), "oneDNN") != NULL));
    assert_true(product_weights_bytes(PRODUCTS_F32, 100) ==
                (products_prepare(PRODUCTS_F32) ? 400 : 0));
    assert_true(product_weights_bytes(PRODUCTS_BF16X2, 100) >= 400);
#ifdef PRODUCTS_WITHOUT
    assert_string_equal(products_why_not(), "this build has no oneDNN 2");
#endif
    assert_true(products_native() == (products_why_not()[0] == '\0'));
    assert_false(products_native() && products_remedy());
    print_message("products: f32 %s, bf16 %s\n", products_unit(PRODUCTS_F32),
                  products_unit(PRODUCTS_BF16));
}

int main(void)
{
    linalg_setup();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(within_bounds),    cmocka_unit_test(kinds_differ),
        cmocka_unit_test(terms_of_weights), cmocka_unit_test(any_threads),
        cmocka_unit_test(not_finite),       cmocka_unit_test(auto_takes_what_the_cpu_has),
        cmocka_unit_test(rows_alone),       cmocka_unit_test(prepared_f32)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

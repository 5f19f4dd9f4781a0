/* Gram sums: against f64 loops, independent of the number of threads, cut at sequence ends. */
#include "math/linalg.h"
#include "util/mem.h"
#include <math.h>
#include <omp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static float *tokens_make(int64_t T, int64_t n)
{
    float *x;
    uint64_t s = 1;
    assert_int_equal(mem_zero(&x, T * n, sizeof *x, "tokens", NULL), OK);
    for (int64_t i = 0; i < T * n; i++) {
        s = s * 6364136223846793005u + 1442695040888963407u;
        x[i] = (float)((double)(s >> 40) / (1 << 23) - 1.0);
    }
    return x;
}

static double *square_make(int64_t n)
{
    double *h;
    assert_int_equal(mem_zero(&h, n * n, sizeof *h, "a Gram", NULL), OK);
    return h;
}

static void sums_are_those_of_loops(void **state)
{
    (void)state;
    const int64_t offset[] = {0, 300, 300, 301, 640}, n = 300; /* three blocks per side */
    float *x = tokens_make(640, n);
    double *h = square_make(n), before = 7;
    h[1] = before;
    assert_int_equal(gram_add(h, x, n, offset, 4, NULL, PRODUCTS_F32, NULL), OK);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) {
            /* One f32 accumulator per tile: rounding errors are proportional to the sum of
             * magnitudes. */
            double sum = i == 0 && j == 1 ? before : 0, size = 0;
            for (int64_t t = 0; j >= i && t < 640; t++) {
                double term = (double)x[t * n + i] * (double)x[t * n + j];
                sum += term;
                size += fabs(term);
            }
            assert_true(fabs(h[i * n + j] - sum) <= 1e-6 * size); /* 0 below the diagonal */
        }
    free(x), free(h);
}

/* The same in bf16 terms, within their bound, also for one thread more and with a bound for exact
 * sums; nothing is written below the diagonal. */
static void terms_stay_within_their_bound(void **state)
{
    (void)state;
    static const double error[] = {[PRODUCTS_BF16X3] = 0x1p-22,
                                   [PRODUCTS_BF16X2] = 0x1p-15,
                                   [PRODUCTS_BF16] = 0x1p-7 + 0x1p-15};
    const int64_t offset[] = {0, 300, 300, 301, 1640}, n = 300, T = 1640;
    const int before = omp_get_max_threads();
    float *x = tokens_make(T, n), maximum[300] = {0};
    double *f = square_make(n), *size = square_make(n), bound[300];
    gram_bound_raise(maximum, x, n, T);
    gram_bound_make(bound, maximum, n, T);
    for (int64_t t = 0; t < T; t++)
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = i; j < n; j++) {
                const double term = (double)x[t * n + i] * (double)x[t * n + j];
                f[i * n + j] += term;
                size[i * n + j] += fabs(term);
            }
    for (enum products kind = PRODUCTS_BF16X3; kind < PRODUCTS_AUTO; kind++) {
        double *h = square_make(n), *g = square_make(n), *exact = square_make(n);
        double worst = 0;
        assert_int_equal(gram_add(h, x, n, offset, 4, NULL, kind, NULL), OK);
        assert_int_equal(gram_add(exact, x, n, offset, 4, bound, kind, NULL), OK);
        omp_set_num_threads(before + 1);
        assert_int_equal(gram_add(g, x, n, offset, 4, NULL, kind, NULL), OK);
        omp_set_num_threads(before);
        assert_memory_equal(g, h, sizeof *h * (size_t)(n * n));
        for (int64_t i = 0; i < n * n; i++) {
            if (size[i] > 0) worst = fmax(worst, fabs(h[i] - f[i]) / size[i]);
            assert_true(size[i] > 0 ? fabs(h[i] - exact[i]) <= 1e-6 * size[i] : h[i] == 0);
        }
        print_message("%s: error %.1e of the magnitudes\n", products_words[kind], worst);
        assert_true(worst <= error[kind] + 1e-6);
        if (kind == PRODUCTS_BF16) assert_true(worst > 1e-6); /* it is not f32 by mistake */
        free(h), free(g), free(exact);
    }
    free(x), free(f), free(size);
}

/* Integers are exact in f32, so the tiling must not matter at all. */
static void tiles_do_not_matter_for_integers(void **state)
{
    (void)state;
    const int64_t n = 130, whole[] = {0, 700}, cut[] = {0, 5, 261, 700}, two[] = {0, 200};
    float *x = tokens_make(700, n);
    double *h = square_make(n), *g = square_make(n);
    for (int64_t i = 0; i < 700 * n; i++) x[i] = rintf(x[i] * 8);
    assert_int_equal(gram_add(h, x, n, whole, 1, NULL, PRODUCTS_F32, NULL), OK);
    assert_int_equal(gram_add(g, x, n, cut, 3, NULL, PRODUCTS_F32, NULL), OK);
    assert_memory_equal(h, g, (size_t)(n * n) * sizeof *h);
    /* offsets are relative to x; two calls add up to one sum */
    memset(g, 0, (size_t)(n * n) * sizeof *g);
    assert_int_equal(gram_add(g, x, n, two, 1, NULL, PRODUCTS_F32, NULL), OK);
    const int64_t rest[] = {0, 500};
    assert_int_equal(gram_add(g, x + 200 * n, n, rest, 1, NULL, PRODUCTS_F32, NULL), OK);
    assert_memory_equal(h, g, (size_t)(n * n) * sizeof *h);
    free(x), free(h), free(g);
}

static void same_bits_for_any_threads(void **state)
{
    (void)state;
    const int64_t n = 520, offset[] = {0, 100, 900};
    float *x = tokens_make(900, n);
    double *h = square_make(n), *g = square_make(n);
    omp_set_num_threads(1);
    assert_int_equal(gram_add(h, x, n, offset, 2, NULL, PRODUCTS_F32, NULL), OK);
    omp_set_num_threads(3);
    assert_int_equal(gram_add(g, x, n, offset, 2, NULL, PRODUCTS_F32, NULL), OK);
    assert_memory_equal(h, g, (size_t)(n * n) * sizeof *h);
    free(x), free(h), free(g);
}

static void no_tokens_add_nothing(void **state)
{
    (void)state;
    const int64_t empty[] = {0, 0}, bad[] = {0, 3, 2};
    float x[3] = {1, 2, 3};
    double h = 5;
    struct err e = {0};
    assert_int_equal(gram_add(&h, x, 1, empty, 1, NULL, PRODUCTS_F32, &e), OK);
    assert_int_equal(gram_add(&h, x, 1, empty, 0, NULL, PRODUCTS_F32, &e), OK);
    assert_true(h == 5);
    assert_int_equal(gram_add(&h, x, 1, bad, 2, NULL, PRODUCTS_F32, &e), ERR_SHAPE);
    assert_non_null(strstr(e.text, "sequence 1"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_those_of_loops),
        cmocka_unit_test(terms_stay_within_their_bound),
        cmocka_unit_test(tiles_do_not_matter_for_integers),
        cmocka_unit_test(same_bits_for_any_threads),
        cmocka_unit_test(no_tokens_add_nothing),
    };
    linalg_setup();
    return cmocka_run_group_tests(tests, NULL, NULL);
}

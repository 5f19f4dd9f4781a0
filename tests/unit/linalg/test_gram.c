/* Gram sums: against f64 loops, independent of the number of threads, cut at sequence ends. */
#include "linalg/linalg.h"
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

static void test_against_loops(void **state)
{
    (void)state;
    const int64_t offset[] = {0, 300, 300, 301, 640}, n = 300; /* three blocks per side */
    float *x = tokens_make(640, n);
    double *h = square_make(n), before = 7;
    h[1] = before;
    assert_int_equal(gram_add(h, x, n, offset, 4, NULL, NULL), OK);
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

/* Integers are exact in f32, so the tiling must not matter at all. */
static void test_exact(void **state)
{
    (void)state;
    const int64_t n = 130, whole[] = {0, 700}, cut[] = {0, 5, 261, 700}, two[] = {0, 200};
    float *x = tokens_make(700, n);
    double *h = square_make(n), *g = square_make(n);
    for (int64_t i = 0; i < 700 * n; i++) x[i] = rintf(x[i] * 8);
    assert_int_equal(gram_add(h, x, n, whole, 1, NULL, NULL), OK);
    assert_int_equal(gram_add(g, x, n, cut, 3, NULL, NULL), OK);
    assert_memory_equal(h, g, (size_t)(n * n) * sizeof *h);
    /* offsets are relative to x; two calls add up to one sum */
    memset(g, 0, (size_t)(n * n) * sizeof *g);
    assert_int_equal(gram_add(g, x, n, two, 1, NULL, NULL), OK);
    const int64_t rest[] = {0, 500};
    assert_int_equal(gram_add(g, x + 200 * n, n, rest, 1, NULL, NULL), OK);
    assert_memory_equal(h, g, (size_t)(n * n) * sizeof *h);
    free(x), free(h), free(g);
}

static void test_threads(void **state)
{
    (void)state;
    const int64_t n = 520, offset[] = {0, 100, 900};
    float *x = tokens_make(900, n);
    double *h = square_make(n), *g = square_make(n);
    omp_set_num_threads(1);
    assert_int_equal(gram_add(h, x, n, offset, 2, NULL, NULL), OK);
    omp_set_num_threads(3);
    assert_int_equal(gram_add(g, x, n, offset, 2, NULL, NULL), OK);
    assert_memory_equal(h, g, (size_t)(n * n) * sizeof *h);
    free(x), free(h), free(g);
}

static void test_edges(void **state)
{
    (void)state;
    const int64_t empty[] = {0, 0}, bad[] = {0, 3, 2};
    float x[3] = {1, 2, 3};
    double h = 5;
    struct err e = {0};
    assert_int_equal(gram_add(&h, x, 1, empty, 1, NULL, &e), OK);
    assert_int_equal(gram_add(&h, x, 1, empty, 0, NULL, &e), OK);
    assert_true(h == 5);
    assert_int_equal(gram_add(&h, x, 1, bad, 2, NULL, &e), ERR_SHAPE);
    assert_non_null(strstr(e.text, "sequence 1"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_loops),
        cmocka_unit_test(test_exact),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_edges),
    };
    linalg_setup();
    return cmocka_run_group_tests(tests, NULL, NULL);
}

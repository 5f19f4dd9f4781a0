/* H = R Rᵀ: product, shape, uniqueness against the inverse, failures, threads. */
#include "math/linalg.h"
#include "util/mem.h"
#include <math.h>
#include <omp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static double *square_make(int64_t n)
{
    double *h;
    assert_int_equal(mem_zero(&h, n * n, sizeof *h, "a matrix", NULL), OK);
    return h;
}

/* Upper triangle of A Aᵀ + n/100, A of pseudorandom numbers; garbage below the diagonal. */
static double *spd_make(int64_t n)
{
    double *a = square_make(n), *h = square_make(n);
    uint64_t s = 3;
    for (int64_t i = 0; i < n * n; i++) {
        s = s * 6364136223846793005u + 1442695040888963407u;
        a[i] = (double)(s >> 40) / (1 << 23) - 1.0;
    }
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) {
            double sum = i == j ? 0.01 * (double)n : 0;
            for (int64_t k = 0; k < n; k++) sum += a[i * n + k] * a[j * n + k];
            h[i * n + j] = j >= i ? sum : NAN;
        }
    free(a);
    return h;
}

static void the_factor_times_itself_is_the_matrix(void **state)
{
    (void)state;
    const int64_t orders[] = {1, 2, 5, 191, 192, 193, 450};
    for (int o = 0; o < 7; o++) {
        int64_t n = orders[o];
        double *h = spd_make(n), *r = square_make(n);
        memcpy(r, h, (size_t)(n * n) * sizeof *h);
        assert_int_equal(chol_upper(r, n, NULL), OK);
        for (int64_t i = 0; i < n; i++) {
            assert_true(r[i * n + i] > 0);
            for (int64_t j = 0; j < i; j++) assert_true(r[i * n + j] == 0);
            for (int64_t j = i; j < n; j++) {
                double sum = 0;
                for (int64_t k = j; k < n; k++) sum += r[i * n + k] * r[j * n + k];
                assert_true(fabs(sum - h[i * n + j]) < 1e-11 * (double)n);
            }
        }
        free(h), free(r);
    }
}

static void same_bits_for_any_threads(void **state)
{
    (void)state;
    const int64_t n = 450;
    double *h = spd_make(n), *g = spd_make(n);
    omp_set_num_threads(1);
    assert_int_equal(chol_upper(h, n, NULL), OK);
    omp_set_num_threads(3);
    assert_int_equal(chol_upper(g, n, NULL), OK);
    assert_memory_equal(h, g, (size_t)(n * n) * sizeof *h);
    free(h), free(g);
}

/* An impossible pivot: the message names the channel. With H = diag except one entry, the first
 * failing channel from the end is known. */
static void a_bad_pivot_names_its_channel(void **state)
{
    (void)state;
    const int64_t n = 400;
    const double bad[] = {0, -1, NAN, INFINITY};
    for (int b = 0; b < 4; b++) {
        for (int64_t at = 0; at < n; at += 133) {
            double *h = square_make(n);
            struct err e = {0};
            char place[32];
            for (int64_t i = 0; i < n; i++) h[i * n + i] = i == at ? bad[b] : 2;
            assert_int_equal(chol_upper(h, n, &e), ERR_NUMERIC);
            snprintf(place, sizeof place, "channel %d", (int)at);
            assert_string_equal(strstr(e.text, "channel"), place);
            free(h);
        }
    }
}

static void diagonal_blocks_are_inverted(void **state)
{
    (void)state;
    const int64_t n = 220, i0 = 50, m = 150;
    double *r = spd_make(n), *inv = square_make(m);
    struct err e = {0};
    assert_int_equal(chol_upper(r, n, NULL), OK);
    assert_int_equal(triangular_inverse(inv, r, n, i0, m, NULL), OK);
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < m; j++) {
            double sum = 0;
            for (int64_t k = 0; k < m; k++) sum += r[(i0 + i) * n + i0 + k] * inv[k * m + j];
            assert_true(fabs(sum - (i == j)) < 1e-9);
            if (j < i) assert_true(inv[i * m + j] == 0);
        }
    r[(i0 + 4) * n + i0 + 4] = 0;
    assert_int_equal(triangular_inverse(inv, r, n, i0, m, &e), ERR_NUMERIC);
    assert_string_equal(strstr(e.text, "channel"), "channel 54");
    assert_int_equal(triangular_inverse(inv, r, n, 0, 0, NULL), OK);
    free(r), free(inv);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_factor_times_itself_is_the_matrix),
        cmocka_unit_test(same_bits_for_any_threads),
        cmocka_unit_test(a_bad_pivot_names_its_channel),
        cmocka_unit_test(diagonal_blocks_are_inverted),
    };
    linalg_setup();
    return cmocka_run_group_tests(tests, NULL, NULL);
}

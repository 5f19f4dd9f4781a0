/* forecast: the products that a known decay still needs, and real residuals of Lanczos. */
#include "curvature/forecast.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void keep(void *context, int64_t products)
{
    *(int64_t *)context = products;
}

static void a_constant_factor_is_foreseen(void **state)
{
    (void)state;
    int64_t told = -1;
    struct forecast f = {.tell = keep, .context = &told};
    for (int i = 1; i <= 10; i++) {
        forecast_note(&f, i, i == 1 ? 50 : pow(0.5, i), 0.9 * pow(0.5, 9), 100);
        assert_int_equal(told, i < 3 ? 100 - i : 10 - i);
    }
}

/* Relative residuals of the largest eigenvalue of a model with 1 M parameters, until 1e-3. */
static void real_residuals_are_foreseen(void **state)
{
    (void)state;
    const double runs[][17] = {
        {116.3, 1.437, 0.5746, 0.2723, 0.2923, 0.2824, 0.1388, 0.1049, 0.1313, 0.1238, 0.06107,
         0.03559, 0.02745, 0.0148, 0.00609, 0.002376, 0.0009832},
        {75.62, 1.72, 0.7135, 0.5385, 0.2675, 0.114, 0.04703, 0.02273, 0.01124, 0.00483, 0.001849,
         0.0006689},
        {56.72, 1.658, 0.4662, 0.2342, 0.1517, 0.1142, 0.1311, 0.1051, 0.0453, 0.01856, 0.008312,
         0.004516, 0.002455, 0.001081, 0.0004483}};
    for (int run = 0; run < 3; run++) {
        int n = 1;
        while (runs[run][n - 1] > 1e-3) n++;
        int64_t told = -1;
        struct forecast f = {.tell = keep, .context = &told};
        for (int i = 1; i <= n; i++) {
            forecast_note(&f, i, runs[run][i - 1], 1e-3, 100);
            if (i >= 5) assert_in_range(i + told, n * 0.5, n * 1.6);
        }
        assert_int_equal(told, 0);
    }
}

static void without_decay_all_products_are_foreseen(void **state)
{
    (void)state;
    int64_t told = -1;
    struct forecast f = {.tell = keep, .context = &told};
    const double measures[] = {1, 0.5, 0.7, 0.5, NAN, INFINITY};
    for (int i = 1; i <= 6; i++) {
        forecast_note(&f, i, measures[i - 1], 1e-3, 10);
        assert_int_equal(told, 10 - i);
    }
    forecast_note(&f, 7, 0, 0, 10);
    assert_int_equal(told, 0);
    forecast_note(NULL, 1, 1, 1, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_constant_factor_is_foreseen),
        cmocka_unit_test(real_residuals_are_foreseen),
        cmocka_unit_test(without_decay_all_products_are_foreseen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Parts of a plan: each visit in one of them, costs nearly equal, the same whoever cuts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "plan/plan_parts.h"
#include "util/rng.h"
#include <stdlib.h>

enum { VISITS_MOST = 60, PARTS_MOST = 80 };

static struct err error;

/* The largest sum of costs in a part, or -1 if the bounds are no cut. */
static double largest_of(const double *costs, int64_t n_visits, int64_t n, const int64_t *bounds)
{
    double largest = 0;
    if (bounds[0] != 0 || bounds[n] != n_visits) return -1;
    for (int64_t i = 0; i < n; i++) {
        double sum = 0;
        if (bounds[i + 1] < bounds[i]) return -1;
        for (int64_t j = bounds[i]; j < bounds[i + 1]; j++) sum += costs[j];
        largest = sum > largest ? sum : largest;
    }
    return largest;
}

/* The smallest largest sum of n parts, by trying all ends of the last one. */
static double best_of(const double *costs, int64_t n_visits, int64_t n)
{
    double best[PARTS_MOST + 1][VISITS_MOST + 1];
    for (int64_t i = 0; i <= n_visits; i++) best[0][i] = i ? 1e300 : 0;
    for (int64_t k = 1; k <= n; k++)
        for (int64_t i = 0; i <= n_visits; i++) {
            double sum = 0;
            best[k][i] = best[k - 1][i];
            for (int64_t j = i - 1; j >= 0; j--) {
                sum += costs[j];
                const double most = best[k - 1][j] > sum ? best[k - 1][j] : sum;
                if (most < best[k][i]) best[k][i] = most;
            }
        }
    return best[n][n_visits];
}

static int64_t count_empty(const int64_t *bounds, int64_t n)
{
    int64_t empty = 0;
    for (int64_t i = 0; i < n; i++) empty += bounds[i] == bounds[i + 1];
    return empty;
}

/* Visits of very different costs, random ones, and none. */
static void parts_are_whole_and_balanced(void **state)
{
    (void)state;
    double costs[VISITS_MOST];
    int64_t bounds[PARTS_MOST + 1];
    for (uint64_t i = 0; i < 400; i++) {
        const int64_t visits = (int64_t)(i % (VISITS_MOST + 1));
        const int64_t n = 1 + (int64_t)(i * 7 % PARTS_MOST);
        for (int64_t j = 0; j < visits; j++) {
            const double u = (double)(rng_bits(i, (uint64_t)j) % 1000) / 1000;
            costs[j] = i % 3 == 0 ? 1 : i % 3 == 1 ? 0.1 + u : u < 0.1 ? 100 : 0.01;
        }
        assert_int_equal(plan_parts_cut(costs, visits, n, bounds, &error), OK);
        const double largest = largest_of(costs, visits, n, bounds);
        assert_true(largest >= 0 && largest <= best_of(costs, visits, n) + 1e-4);
        assert_int_equal(count_empty(bounds, n), visits < n ? n - visits : 0);
    }
}

/* Fifteen equal visits in four parts: 4, 4, 4, 3 in some order, not 4, 4, 4, 3 by luck of rounding.
 */
static void equal_visits_are_cut_evenly(void **state)
{
    (void)state;
    double costs[15];
    int64_t bounds[5];
    for (int i = 0; i < 15; i++) costs[i] = 0.3;
    assert_int_equal(plan_parts_cut(costs, 15, 4, bounds, &error), OK);
    for (int i = 0; i < 4; i++) {
        assert_true(bounds[i + 1] - bounds[i] >= 3);
        assert_true(bounds[i + 1] - bounds[i] <= 4);
    }
}

static void only_k_of_n_is_a_part(void **state)
{
    (void)state;
    static const char *const bad[] = {"",    "3",     "3/",   "/8",   "0/8",      "9/8",
                                      "3/0", "-1/-1", "3/8x", "3 of", "1/1000000"};
    struct plan_part part;
    assert_int_equal(plan_part_parse("3/8", &part, &error), OK);
    assert_int_equal(part.k, 3);
    assert_int_equal(part.n, 8);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        err_clear(&error);
        assert_int_equal(plan_part_parse(bad[i], &part, &error), ERR_USAGE);
    }
    err_clear(&error);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_are_whole_and_balanced),
        cmocka_unit_test(equal_visits_are_cut_evenly),
        cmocka_unit_test(only_k_of_n_is_a_part),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The ratio of taken to planned time carries over to other work by how much work showed it. */
#include "util/ratio.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-12 * fabs(b);
}

static void nothing_says_nothing(void **state)
{
    (void)state;
    assert_true(ratio_carried(0, 0, 10) == 1);
    assert_true(ratio_carried(0, 5, 10) == 1);
    assert_true(ratio_carried(5, 0, 10) == 1);
    assert_true(ratio_carried(NAN, 1, 1) == 1);
}

/* Half of the logarithm where the planned work is a quarter of the other. */
static void weights_the_logarithm(void **state)
{
    (void)state;
    assert_true(near(ratio_carried(10, 40, 0), 4));
    assert_true(near(ratio_carried(10, 40, 40), 2));
    assert_true(near(ratio_carried(10, 2.5, 40), 0.5));
    assert_true(near(ratio_carried(30, 480, 40), 8));
}

/* From 1 to the measured ratio as the work that showed it grows. */
static void grows_with_the_work(void **state)
{
    (void)state;
    double last = 1;
    for (double planned = 0.01; planned < 1e5; planned *= 3) {
        double slower = ratio_carried(planned, 3 * planned, 100);
        double faster = ratio_carried(planned, planned / 3, 100);
        assert_true(slower > last && slower < 3);
        assert_true(near(slower * faster, 1));
        last = slower;
    }
    assert_true(last > 2.99);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_says_nothing),
        cmocka_unit_test(weights_the_logarithm),
        cmocka_unit_test(grows_with_the_work),
    };
    return cmocka_run_group_tests_name("ratio", tests, NULL, NULL);
}

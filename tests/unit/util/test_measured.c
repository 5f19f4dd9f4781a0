/* Numbers with their errors, as people write them. */
#include "util/quantity.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void both(double value, double error, const char *want)
{
    char text[MEASURED];
    measured_text(value, error, text);
    assert_string_equal(text, want);
}

static void alone(double value, double error, const char *want)
{
    char text[MEASURED];
    measured_value(value, error, text);
    assert_string_equal(text, want);
}

static void as_people_write(void **state)
{
    (void)state;
    both(1234.4, 56.3, "1234 ± 56");
    both(1234.4, 560.3, "1230 ± 560");
    both(123456, 5603, "123500 ± 5600");
    both(12.345678, 0.0123, "12.346 ± 0.012");
    both(-0.0123456, 0.00456, "-0.0123 ± 0.0046");
    both(0.5, 10, "0 ± 10"); /* not 1e+01 */
    both(12345678, 560000, "(1.235 ± 0.056)e7");
    both(1.2348e-6, 5.6e-8, "(1.235 ± 0.056)e-6");
    both(0, 0.1, "0.00 ± 0.10");
    both(1, 1e-30, "1.00000000 ± 0.00000000");
}

static void values_alone(void **state)
{
    (void)state;
    alone(12.345678, 0.48, "12.35");
    alone(12.345678, 0.0000012, "12.3456780");
    alone(20.1, 48, "20");
    alone(12345678, 560000, "1.235e7");
    alone(-3.2, 0.1, "-3.20");
}

static void unknown_errors(void **state)
{
    (void)state;
    both(1234.567, NAN, "1235");
    both(1234.567, 0, "1234.567");
    both(NAN, 1, "nan");
    both(INFINITY, 1, "inf");
    both(1, INFINITY, "1");
    alone(0.1, NAN, "0.1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(as_people_write),
                                       cmocka_unit_test(values_alone),
                                       cmocka_unit_test(unknown_errors)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

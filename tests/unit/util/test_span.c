/* Lengths of time as people and Slurm write them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "util/quantity.h"

static void both_forms_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        double seconds;
    } right[] = {{"90s", 90},      {"30m", 1800},     {"1h30m", 5400},       {"2d", 172800},
                 {"0.5h", 1800},   {"30", 1800},      {"1:30", 90},          {"8:00:00", 28800},
                 {"1-12", 129600}, {"1-0:30", 88200}, {"1-12:30:01", 131401}};
    static const char *const wrong[] = {"",        "h",  "1x", "-3h", "1h30",
                                        "1:2:3:4", "1-", "-1", "1:",  "5 h"};
    struct err e = {0};
    double seconds;
    for (size_t i = 0; i < sizeof right / sizeof *right; i++) {
        assert_int_equal(span_parse(right[i].text, &seconds, &e), OK);
        assert_true(seconds == right[i].seconds);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(span_parse(wrong[i], &seconds, &e), ERR_USAGE);
        err_clear(&e);
    }
}

static void slurm_reads_what_is_written(void **state)
{
    (void)state;
    char text[SPAN];
    span_slurm(1, text);
    assert_string_equal(text, "00:01:00");
    span_slurm(86400, text);
    assert_string_equal(text, "1-00:00:00");
    span_slurm(131400, text);
    assert_string_equal(text, "1-12:30:00");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_forms_are_read),
        cmocka_unit_test(slurm_reads_what_is_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

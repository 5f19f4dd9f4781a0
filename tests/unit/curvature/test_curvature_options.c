/* Options of curvature: flags, defaults, checks of combinations, JSON round trip. */
#include "curvature/curvature_options.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static enum status parse(struct curvature_options *o, int n, const char *const *flags,
                         struct err *e)
{
    enum status st = OK;
    options_default(&curvature_table, o);
    for (int i = 0; i < n && st == OK;) {
        int used = 0;
        st =
            options_flag(&curvature_table, "", o, n - i, (char **)(uintptr_t)(flags + i), &used, e);
        if (st == OK && used == 0) return ERR_SHAPE; /* no such flag */
        i += used;
    }
    return st == OK ? curvature_options_finish(o, e) : st;
}

static void nothing_is_measured_by_default(void **state)
{
    (void)state;
    struct curvature_options o;
    assert_int_equal(parse(&o, 0, NULL, NULL), OK);
    assert_true(o.subset == 0 && o.sharpness == SHARPNESS_NONE && o.stop == 0 &&
                o.tolerance == 1e-3 && o.products == 100 && o.trace == 0 && o.density == 0 &&
                o.density_runs == 1 && !o.hutchpp && o.memory == 16);
}

static void flags_set_every_option(void **state)
{
    (void)state;
    struct curvature_options o, again;
    const char *flags[] = {
        "--subset",   "quantized", "--sharpness=lanczos", "--stop",      "residual",
        "--trace",    "30",        "--hutchpp",           "--tolerance", "1e-4",
        "--products", "20",        "--density=50",        "--together",  "4",
        "--memory",   "0.5"};
    assert_int_equal(parse(&o, sizeof flags / sizeof *flags, flags, NULL), OK);
    assert_true(o.subset == 3 && o.sharpness == SHARPNESS_LANCZOS && o.stop == 1 && o.trace == 30 &&
                o.hutchpp && o.tolerance == 1e-4 && o.products == 20 && o.density == 50 &&
                o.together == 4 && o.memory == 0.5);
    json_t *json = options_to_json(&curvature_table, &o);
    assert_non_null(json);
    assert_string_equal(json_text(json, "sharpness", ""), "lanczos");
    assert_int_equal(options_from_json(&curvature_table, json, &again, NULL), OK);
    json_t *other = options_to_json(&curvature_table, &again);
    assert_true(json_equal(json, other));
    json_decref(json);
    json_decref(other);
}

static void refuse(const char *text, int n, const char *const *flags)
{
    struct curvature_options o;
    struct err e = {0};
    assert_int_equal(parse(&o, n, flags, &e), ERR_USAGE);
    assert_non_null(strstr(e.text, text));
}

static void contradictions_are_refused(void **state)
{
    (void)state;
    refuse("mat2d", 2, (const char *const[]){"--subset", "mat3d"});
    refuse("--products", 2, (const char *const[]){"--products", "0"});
    refuse("--hutchpp: spends", 3, (const char *const[]){"--trace", "5", "--hutchpp"});
    refuse("--hutchpp: takes", 5,
           (const char *const[]){"--trace", "9", "--hutchpp", "--trace-error", "0.1"});
    refuse("--trace-error: needs", 2, (const char *const[]){"--trace-error", "0.1"});
    struct curvature_options o;
    struct err e = {0};
    json_t *json = json_pack("{s:i, s:b}", "trace", 3, "hutchpp", true);
    assert_int_equal(options_from_json(&curvature_table, json, &o, &e), ERR_FORMAT);
    assert_non_null(strstr(e.text, "hutchpp"));
    json_decref(json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_measured_by_default),
        cmocka_unit_test(flags_set_every_option),
        cmocka_unit_test(contradictions_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

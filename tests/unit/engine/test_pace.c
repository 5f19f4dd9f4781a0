/* The pace of a visit: seconds that its rest takes, from what was planned and what was measured. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/pace.h"
#include <math.h>
#include <stdio.h>

static struct {
    double left, once;
    char what[32];
    bool last;
} told;

static void progress(void *context, const char *what, double left, double once, bool last)
{
    (void)context;
    told.left = left;
    told.once = once;
    told.last = last;
    snprintf(told.what, sizeof told.what, "%s", what);
}

static const double planned[MEASURES_N] = {
    [MEASURE_cell] = 100, [MEASURE_second_order] = 50, [MEASURE_curvature] = 200};
static const struct visit_hooks hooks = {.progress = progress, .planned = planned};

/* Seconds go by. */
static void wait(struct pace *p, double seconds)
{
    p->since -= seconds;
}

static struct pace start(struct visit_cache *cache, char *model)
{
    struct pace p;
    const struct visit v = {.model = model};
    pace_open(&p, &v, &hooks, cache);
    return p;
}

static void about(double expected)
{
    if (told.left < 0.95 * expected || told.left > 1.05 * expected)
        fail_msg("%g seconds left, expected %g", told.left, expected);
}

static char name[] = "a", other[] = "b";

static void measured_time_corrects_the_plan(void **state)
{
    (void)state;
    struct visit_cache cache = {0};
    struct pace p = start(&cache, name);
    pace_begin(&p, MEASURE_cell);
    assert_string_equal(told.what, "cells");
    about(350); /* as planned */
    wait(&p, 20);
    pace_step(&p, 0.1); /* twice as slow: ten seconds say little of minutes */
    about(2 * 90 + 50 * pow(2, 10 / (10 + 50.0 / 4)) + 200 * pow(2, 10 / (10 + 200.0 / 4)));
    wait(&p, 180);
    pace_step(&p, 0.9); /* a hundred say most */
    about(50 * pow(2, 100 / (100 + 50.0 / 4)) + 200 * pow(2, 100 / (100 + 200.0 / 4)));
    pace_begin(&p, MEASURE_second_order);
    wait(&p, 50);
    pace_step(&p, 1);
    pace_begin(&p, MEASURE_curvature);
    about(200 * pow(250.0 / 150, 0.75)); /* nearly the mean of both, until it is measured itself */
    wait(&p, 10);
    pace_step(&p, 0.1); /* half as long as planned */
    about(90);
    pace_close(&p);
    assert_true(told.last && told.left == 0);
}

static void later_visits_learn(void **state)
{
    (void)state;
    struct visit_cache cache = {0};
    struct pace p = start(&cache, name);
    pace_begin(&p, MEASURE_cell);
    wait(&p, 200);
    pace_step(&p, 1);
    pace_begin(&p, MEASURE_second_order);
    wait(&p, 50);
    pace_step(&p, 1);
    pace_begin(&p, MEASURE_curvature);
    wait(&p, 25);
    pace_step(&p, 0.25);
    pace_ahead(&p, 0.25); /* the search has ended early */
    about(25);
    wait(&p, 25);
    pace_step(&p, 0.25);
    pace_close(&p);
    p = start(&cache, name);
    pace_begin(&p, MEASURE_cell);
    about(200 + 50 + 50);
    pace_close(&p);
    p = start(&cache, other); /* of another model nothing is known */
    pace_begin(&p, MEASURE_cell);
    about(350);
}

static void what_is_kept_is_not_the_visits(void **state)
{
    (void)state;
    struct visit_cache cache = {0};
    struct pace p = start(&cache, name);
    pace_begin(&p, MEASURE_cell);
    pace_prepare(&p, true);
    wait(&p, 1000);
    pace_prepare(&p, false);
    wait(&p, 50);
    pace_step(&p, 0.5);
    about(300);
    assert_true(told.once >= 1000 && told.once < 1001);
    pace_skip(&p, 0.5); /* a variant failed */
    pace_begin(&p, MEASURE_curvature);
    about(200 + 50);
    pace_step(NULL, 1);
    pace_prepare(NULL, true);
}

static void without_hooks_nothing_is_planned_or_reported(void **state)
{
    (void)state;
    struct visit_cache cache = {0};
    struct pace p;
    const struct visit v = {.model = name};
    const struct visit_hooks none = {0};
    told.left = -1;
    pace_open(&p, &v, &none, &cache);
    pace_begin(&p, MEASURE_cell);
    pace_step(&p, 1);
    assert_true(pace_left(&p) == 0);
    pace_close(&p);
    assert_true(told.left == -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(measured_time_corrects_the_plan),
        cmocka_unit_test(later_visits_learn),
        cmocka_unit_test(what_is_kept_is_not_the_visits),
        cmocka_unit_test(without_hooks_nothing_is_planned_or_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

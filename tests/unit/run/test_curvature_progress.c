/* The line that says how far a measurement of curvature is. */
#include "run/progress.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void is(const struct curvature_progress *p, double seconds, const char *want)
{
    char text[CURVATURE_PROGRESS];
    curvature_progress_text(p, seconds, text);
    assert_string_equal(text, want);
}

static void says_how_far_it_is(void **state)
{
    (void)state;
    struct curvature_progress p;
    curvature_progress_start(&p, 101, 1010);
    p.terminal = true; /* a log would get no line within ten seconds either */
    curvature_progress_add(&p, 0.5);
    is(&p, 12, "curvature: gradient, 12 s, at most 16.8 min left"); /* as expected */
    curvature_progress_add(&p, 0.5);
    is(&p, 12,
       "curvature: 0 of at most 100 products with the Hessian, 12 s, at most 16.7 min left");
    for (int i = 0; i < 19; i++) curvature_progress_add(&p, 1);
    is(&p, 40,
       "curvature: 19 of at most 100 products with the Hessian, 40 s, at most 2.7 min left");
    for (int i = 0; i < 81; i++) curvature_progress_add(&p, 1);
    is(&p, 202, "curvature: 100 of at most 100 products with the Hessian, 3.37 min");
}

/* Nothing is promised before it is known. */
static void knows_nothing_yet(void **state)
{
    (void)state;
    struct curvature_progress p;
    curvature_progress_start(&p, 11, 0);
    curvature_progress_add(&p, 1);
    is(&p, 3, "curvature: 0 of at most 10 products with the Hessian, 3 s");
    curvature_progress_add(&p, 1);
    is(&p, 4, "curvature: 1 of at most 10 products with the Hessian, 4 s, at most 18 s left");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(says_how_far_it_is),
                                       cmocka_unit_test(knows_nothing_yet)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* How long ranks may take to meet. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cli/startup.h"
#include <stdlib.h>

static void patience_is_not_the_time_to_meet(void **state)
{
    (void)state;
    setenv("QTRAJ_PATIENCE", "5", 1);
    assert_true(startup_limit(10) > 120);
    setenv("QTRAJ_MEET", "7", 1);
    assert_true(startup_limit(10) == 7);
    unsetenv("QTRAJ_PATIENCE");
    unsetenv("QTRAJ_MEET");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patience_is_not_the_time_to_meet),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* steps.csv as the curves of a cube have it: how rows are joined, and what is no such table. */
#include "records/steps_table.h"
#include "scratch.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static FILE *table(char path[300], const char *head)
{
    snprintf(path, 300, "%s/steps.csv", scratch_dir());
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(head, f);
    snprintf(path, 300, "%s/trajectory.csv", scratch_dir());
    return f;
}

static json_t *curve(const char *path)
{
    json_t *out;
    struct err e = {0};
    if (steps_curve_read(path, &out, &e) != OK) fail_msg("%s", e.text);
    return out;
}

static double at(const json_t *curve, const char *column, size_t i)
{
    const json_t *list = json_object_get(curve, column);
    assert_true(i < json_array_size(list));
    return json_number_get(json_array_get(list, i));
}

/* 1201 steps: 400 rows of three, and one of what is left; validation every 100 steps. */
static void test_joined(void **state)
{
    char path[300];
    FILE *f = table(path, STEPS_TABLE_HEAD);
    (void)state;
    for (int k = 1; k <= 1201; k++) {
        fprintf(f, "%d,%d,%g,%d,0,%d,", k, 8 * k, 1e-3 * k, k, 2 * k);
        if (k % 100 == 0) fprintf(f, "%d", -k);
        fprintf(f, ",%d\n", k % 3 == 1 ? 1 : 4);
    }
    fputs("1202,9616,1", f); /* is still being written */
    fclose(f);
    json_t *c = curve(path);
    assert_int_equal(json_array_size(json_object_get(c, "step")), 401);
    assert_true(at(c, "step", 1) == 6 && at(c, "steps", 1) == 3 && at(c, "tokens", 1) == 48);
    assert_float_equal(at(c, "learning_rate", 1), 6e-3, 1e-12);
    assert_true(at(c, "loss", 1) == 5 && at(c, "gradient_norm", 1) == 10);
    assert_true(at(c, "tokens_per_second", 1) == 2); /* 8 tokens in 8 s, in 2 s, in 2 s */
    assert_true(isnan(at(c, "validation_loss", 1)) && at(c, "validation_loss", 33) == -100);
    assert_true(at(c, "step", 400) == 1201 && at(c, "steps", 400) == 1 &&
                at(c, "loss", 400) == 1201);
    json_decref(c);
}

static void test_absent(void **state)
{
    char path[300];
    (void)state;
    fclose(table(path, "step,loss\n1,2\n"));
    assert_null(curve(path));
    fclose(table(path, STEPS_TABLE_HEAD));
    json_t *c = curve(path);
    assert_int_equal(json_object_size(c), 0);
    json_decref(c);
    FILE *f = table(path, STEPS_TABLE_HEAD "1,8,1,2,,,,\n2,16,1,x\n3,24,1,2,0,1,,1\n");
    fclose(f);
    c = curve(path);
    assert_int_equal(json_array_size(json_object_get(c, "step")), 1);
    assert_true(isnan(at(c, "tokens_per_second", 0)) && isnan(at(c, "gradient_norm", 0)));
    json_decref(c);
    assert_null(curve("/nowhere/at/all.csv"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_joined),
                                       cmocka_unit_test(test_absent)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

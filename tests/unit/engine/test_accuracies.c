/* The list of a visit's records of accuracies: lines are added, read, counted and dropped. */
#include "engine/accuracies.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static bool is_among(const void *keys, const char *key)
{
    return strstr(keys, key) != NULL;
}

static void drops(const char *done, const char *expected)
{
    char *lines = NULL;
    assert_int_equal(accuracies_add(&lines, "piqa", "k1", NULL), OK);
    assert_int_equal(accuracies_add(&lines, "mmlu", "k2", NULL), OK);
    assert_int_equal(accuracies_add(&lines, "mmlu_anatomy", "k3", NULL), OK);
    assert_string_equal(lines, "piqa k1\nmmlu k2\nmmlu_anatomy k3");
    accuracies_drop(&lines, is_among, done);
    assert_true(!lines == !expected && (!lines || strcmp(lines, expected) == 0));
    free(lines);
}

static void some_are_dropped(void **state)
{
    (void)state;
    drops("", "piqa k1\nmmlu k2\nmmlu_anatomy k3");
    drops("k1", "mmlu k2\nmmlu_anatomy k3");
    drops("k2", "piqa k1\nmmlu_anatomy k3");
    drops("k3", "piqa k1\nmmlu k2");
    drops("k2 k3", "piqa k1");
    drops("k1 k3", "mmlu k2");
    drops("k1 k2 k3", NULL);
    char *none = NULL;
    accuracies_drop(&none, is_among, "");
    assert_null(none);
}

static void all_are_read(void **state)
{
    (void)state;
    const char *at = "piqa k1\nmmlu k2";
    struct accuracy_wanted one;
    assert_int_equal(accuracies_count(at), 2);
    assert_int_equal(accuracies_count(NULL), 0);
    assert_true(accuracies_next(&at, &one));
    assert_string_equal(one.task, "piqa");
    assert_string_equal(one.key, "k1");
    assert_true(accuracies_next(&at, &one));
    assert_string_equal(one.task, "mmlu");
    assert_string_equal(one.key, "k2");
    assert_false(accuracies_next(&at, &one));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(some_are_dropped),
                                       cmocka_unit_test(all_are_read)};
    return cmocka_run_group_tests_name("accuracies", tests, NULL, NULL);
}

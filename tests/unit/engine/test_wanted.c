/* The list of further records of a visit: lines are added, read, counted and dropped. */
#include "engine/wanted.h"
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
    assert_int_equal(wanted_add(&lines, "task", "piqa", "k1", NULL), OK);
    assert_int_equal(wanted_add(&lines, "task", "mmlu", "k2", NULL), OK);
    assert_int_equal(wanted_add(&lines, "task", "mmlu_anatomy", "k3", NULL), OK);
    assert_string_equal(lines, "task piqa k1\ntask mmlu k2\ntask mmlu_anatomy k3");
    wanted_drop(&lines, is_among, done);
    assert_true(!lines == !expected && (!lines || strcmp(lines, expected) == 0));
    free(lines);
}

static void some_are_dropped(void **state)
{
    (void)state;
    drops("", "task piqa k1\ntask mmlu k2\ntask mmlu_anatomy k3");
    drops("k1", "task mmlu k2\ntask mmlu_anatomy k3");
    drops("k2", "task piqa k1\ntask mmlu_anatomy k3");
    drops("k3", "task piqa k1\ntask mmlu k2");
    drops("k2 k3", "task piqa k1");
    drops("k1 k3", "task mmlu k2");
    drops("k1 k2 k3", NULL);
    char *none = NULL;
    wanted_drop(&none, is_among, "");
    assert_null(none);
}

static void all_are_read(void **state)
{
    (void)state;
    const char *at = "task piqa k1\ntask mmlu k2";
    struct wanted one;
    char key[HASH_HEX];
    assert_int_equal(wanted_count(at, "task", key), 2);
    assert_int_equal(wanted_count(NULL, "task", NULL), 0);
    assert_string_equal(key, "k2");
    assert_int_equal(wanted_count(at, "piqa", NULL), 0);
    assert_true(wanted_next(&at, &one));
    assert_string_equal(one.measure, "task");
    assert_string_equal(one.label, "piqa");
    assert_string_equal(one.key, "k1");
    assert_true(wanted_next(&at, &one));
    assert_string_equal(one.label, "mmlu");
    assert_string_equal(one.key, "k2");
    assert_false(wanted_next(&at, &one));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(some_are_dropped),
                                       cmocka_unit_test(all_are_read)};
    return cmocka_run_group_tests_name("wanted", tests, NULL, NULL);
}

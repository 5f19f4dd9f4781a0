/* What is wrong, once each with the number that it concerns; folders that can be written. */
#include "scratch.h"
#include "util/faults.h"
#include "util/fsx.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static void says(const struct faults *f, int64_t i, const char *expected)
{
    char *line;
    assert_int_equal(faults_line(f, i, &line, NULL), OK);
    assert_string_equal(line, expected);
    free(line);
}

static void test_counts(void **state)
{
    struct faults f = {0};
    static const char *const added[][2] = {{"a", "too short"}, {"a", "too short"}, {"b", "absent"},
                                           {"b", "too short"}, {"b", "too short"}, {"c", "absent"},
                                           {"d", "absent"},    {"", "no disk"}};
    (void)state;
    for (size_t i = 0; i < sizeof added / sizeof *added; i++)
        assert_int_equal(faults_add(&f, "model", added[i][0], added[i][1], NULL), OK);
    assert_int_equal(f.n, 3);
    says(&f, 0, "a: too short (1 more model likewise)");
    says(&f, 1, "b: absent (2 more models likewise)");
    says(&f, 2, "no disk");
    faults_free(&f);
    assert_int_equal(f.n, 0);
}

static void test_folders(void **state)
{
    char path[400], why[400], expected[500];
    (void)state;
    assert_true(folder_is_writable(scratch_dir(), why, sizeof why));
    snprintf(path, sizeof path, "%s/a/b/c", scratch_dir());
    assert_true(folder_is_writable(path, why, sizeof why));
    assert_string_equal(why, "");
    assert_true(folder_free_bytes(path) > 0);
    assert_int_not_equal(access(path, F_OK), 0);
    snprintf(path, sizeof path, "%s/file", scratch_dir());
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fclose(f);
    snprintf(expected, sizeof expected, "%s is no folder", path);
    assert_false(folder_is_writable(path, why, sizeof why));
    assert_string_equal(why, expected);
    strcat(path, "/a/b");
    assert_false(folder_is_writable(path, why, sizeof why));
    assert_string_equal(why, expected);
    assert_true(folder_is_writable("not/there", why, sizeof why));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_counts),
                                       cmocka_unit_test(test_folders)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Bad sweep files: each gives one clear line, none crashes or hangs. bad/NAME.yaml must give
 * exactly "NAME.yaml:" followed by the content of bad/NAME.txt. */
#include "config/sweep.h"
#include "scratch.h"
#include "util/fsx.h"
#include <glob.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { BAD_FILES = 125 };

static void check_file(const char *yaml)
{
    struct err e = {0};
    struct sweep s;
    char *expected = NULL, name[256], whole[1024];
    snprintf(name, sizeof name, "%.*s.txt", (int)(strlen(yaml) - 5), yaml);
    assert_int_equal(fsx_read(name, 0, &expected, NULL, &e), OK);
    expected[strcspn(expected, "\n")] = '\0';
    enum status st = sweep_read(yaml, NULL, 0, &s, &e);
    /* only a missing file is an I/O error */
    assert_int_equal(st, strcmp(yaml, "no_table.yaml") == 0 ? ERR_IO : ERR_USAGE);
    snprintf(whole, sizeof whole, "%s:%s", yaml, expected);
    assert_string_equal(e.text, whole);
    assert_null(s.name);
    sweep_free(&s);
    free(expected);
}

static void each_bad_file_gets_its_message(void **state)
{
    (void)state;
    glob_t found;
    assert_int_equal(chdir(FIXTURES "/config/bad"), 0);
    assert_int_equal(glob("*.yaml", 0, NULL, &found), 0);
    assert_int_equal(found.gl_pathc, BAD_FILES);
    for (size_t i = 0; i < found.gl_pathc; i++) check_file(found.gl_pathv[i]);
    globfree(&found);
}

/* The status of a text as a sweep file; its message in e. Trajectories are in the file's folder. */
static enum status read_text(const char *text, size_t n, struct err *e)
{
    char path[] = "/tmp/qtraj_bad_XXXXXX";
    struct sweep s;
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    FILE *out = fdopen(fd, "w");
    assert_int_equal(fwrite(text, 1, n, out), n);
    fclose(out);
    enum status st = sweep_read(path, NULL, 0, &s, e);
    sweep_free(&s);
    remove(path);
    return st;
}

/* n times what, then tail. */
static char *repeated(const char *what, size_t times, const char *tail, size_t *n)
{
    size_t one = strlen(what), last = strlen(tail);
    char *text = malloc(one * times + last + 1);
    assert_non_null(text);
    for (size_t i = 0; i < times; i++) memcpy(text + i * one, what, one);
    memcpy(text + one * times, tail, last + 1);
    *n = one * times + last;
    return text;
}

static void check_repeated(const char *what, size_t times, const char *tail, const char *expected)
{
    struct err e = {0};
    size_t n;
    char *text = repeated(what, times, tail, &n);
    assert_int_equal(read_text(text, n, &e), ERR_USAGE);
    if (!strstr(e.text, expected)) fail_msg("gave %s, expected %s", e.text, expected);
    assert_null(strchr(e.text, '\n'));
    free(text);
}

static void hostile_yaml_is_refused(void **state)
{
    (void)state;
    check_repeated("[", 65, "", ":1:65: nested deeper than 64 levels");
    check_repeated("[", 64, "", "not readable as YAML");
    check_repeated("[", 1000000, "", "nested deeper than 64 levels");
    check_repeated("- ", 1000000, "", "nested deeper than 64 levels");
    check_repeated("{a: ", 100000, "", "nested deeper than 64 levels");
    check_repeated("- a\n", 1000000, "", "more than 1000000 YAML events");
    check_repeated("a: 1\n", 200000, "", "a: unknown key");
    check_repeated("seed: 1\n", 200000, "", ":2:1: seed: repeated key, first on line 1");
    check_repeated("a", 10000000, "", "expected a mapping");
    check_repeated("a", 10000000, ": 1", "not readable as YAML");
    check_repeated("x", (16 << 20) + 1, "", "more than the 16777216 that are read");
    check_repeated("name: x\n---\n", 2, "", ":2:1: a second YAML document");
    check_repeated("\xF0\x9F", 3, "", "not readable as YAML");
}

static void a_missing_file_is_an_io_error(void **state)
{
    (void)state;
    struct err e = {0};
    struct sweep s;
    assert_int_equal(sweep_read(scratch_path("absent.yaml"), NULL, 0, &s, &e), ERR_IO);
    assert_non_null(strstr(e.text, "/absent.yaml: No such file"));
    err_clear(&e);
    assert_int_equal(sweep_read(scratch_dir(), NULL, 0, &s, &e), ERR_IO);
    sweep_free(&s);
}

/* A valid file truncated at each byte, and with each byte replaced: a result, no crash, no leak
 * (under the address sanitizer). */
static void damaged_files_are_read_or_refused(void **state)
{
    (void)state;
    struct err e = {0};
    char *text = NULL;
    size_t n = 0;
    int64_t read = 0;
    static const char damage[] = {'\0', '\n', '\t', '&', '*', '{', ']', '"', '\x80', ':', '-', ' '};
    assert_int_equal(fsx_read(FIXTURES "/config/sweep.yaml", 0, &text, &n, &e), OK);
    for (size_t cut = 0; cut < n; cut++) {
        err_clear(&e);
        enum status st = read_text(text, cut, &e);
        /* paths point out of the folder, so none of these files is a complete sweep */
        assert_true(st == ERR_USAGE || st == ERR_IO);
        assert_true(e.text[0] && !strchr(e.text, '\n'));
    }
    for (size_t i = 0; i < n; i++) {
        char kept = text[i];
        text[i] = damage[i % sizeof damage];
        err_clear(&e);
        enum status st = read_text(text, n, &e);
        assert_true(st == OK || st == ERR_USAGE || st == ERR_IO);
        read += st == ERR_IO; /* parsed up to the trajectory */
        text[i] = kept;
    }
    assert_true(read > 0);
    free(text);
}

static int setup(void **state)
{
    (void)state;
    unsetenv("QTRAJ_TEST_UNSET");
    return setenv("QTRAJ_TEST_SCRATCH", "/scratch", 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_bad_file_gets_its_message),
        cmocka_unit_test(hostile_yaml_is_refused),
        cmocka_unit_test(a_missing_file_is_an_io_error),
        cmocka_unit_test(damaged_files_are_read_or_refused),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}

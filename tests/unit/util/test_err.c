/* Errors: the first cause wins, call sites and prefixes, texts longer than the record. */
#include "scratch.h"
#include "util/err.h"

static enum status deepest(int number, struct err *e)
{
    enum status st = OK;
    ENSURE(number != 1, ERR_NUMERIC, "number %d", number);
    if (number == 2) FAIL(ERR_FULL, "always");
done:
    return st;
}

static enum status middle(int number, struct err *e)
{
    enum status st = OK;
    TRY(deepest(number, e));
done:
    return st;
}

static void macros_pass_the_first_cause(void **state)
{
    (void)state;
    struct err e = {0};
    assert_int_equal(middle(0, &e), OK);
    assert_int_equal(e.code, OK);
    assert_int_equal(middle(1, &e), ERR_NUMERIC);
    assert_int_equal(e.code, ERR_NUMERIC);
    assert_string_equal(e.text, "number 1");
    assert_non_null(strstr(e.file, "test_err.c"));
    assert_non_null(strstr(e.trail, "test_err.c:"));
    assert_int_equal(middle(2, &e), ERR_FULL); /* status of this call, record of the first */
    assert_int_equal(e.code, ERR_NUMERIC);
    assert_string_equal(e.text, "number 1");
    err_clear(&e);
    assert_int_equal(e.code, OK);
    assert_string_equal(e.trail, "");
    assert_int_equal(middle(2, &e), ERR_FULL);
    assert_string_equal(e.text, "always");
}

static void nobody_needs_to_listen(void **state)
{
    (void)state;
    assert_int_equal(middle(1, NULL), ERR_NUMERIC);
    err_prefix(NULL, "x");
    err_trail(NULL, "x", 1);
    err_clear(NULL);
}

static void prefixes_stand_before_the_message(void **state)
{
    (void)state;
    struct err e = {0};
    err_prefix(&e, "nothing happened");
    assert_string_equal(e.text, "");
    (void)err_set(&e, ERR_IO, "x.c", 1, "no such file");
    err_prefix(&e, "%s:%d", "a.csv", 3);
    assert_string_equal(e.text, "a.csv:3: no such file");
    err_prefix(&e, "sweep.yaml");
    assert_string_equal(e.text, "sweep.yaml: a.csv:3: no such file");
}

/* Text that does not fit is truncated; the record stays NUL-terminated. */
static void long_texts(void **state)
{
    (void)state;
    struct err e = {0};
    char text[2000];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    (void)err_set(&e, ERR_IO, "x.c", 1, "%s", text);
    assert_int_equal(strlen(e.text), sizeof e.text - 1);
    err_prefix(&e, "before");
    assert_int_equal(strlen(e.text), sizeof e.text - 1);
    assert_memory_equal(e.text, "before: x", 9);
    text[0] = 'y';
    err_prefix(&e, "%s", text);
    assert_int_equal(strlen(e.text), sizeof e.text - 1);
    assert_int_equal(e.text[0], 'y');
    for (int i = 0; i < 100; i++) err_trail(&e, "some/file.c", i);
    assert_int_equal(strlen(e.trail), sizeof e.trail - 1);
    assert_memory_equal(e.trail, " < some/file.c:0 < some/file.c:1", 32);
}

/* A file is known to the user by the name that they gave, not by the one it is written under. */
static void other_names(void **state)
{
    (void)state;
    struct err e = {0};
    char text[600];
    err_rename(NULL, "a", "b");
    err_rename(&e, "a", "b");
    assert_string_equal(e.text, "");
    (void)err_set(&e, ERR_IO, "x.c", 1, "out.tmp.7/x: cannot write out.tmp.7");
    err_rename(&e, "out.tmp.7", "out");
    assert_string_equal(e.text, "out/x: cannot write out");
    err_rename(&e, "absent", "there");
    assert_string_equal(e.text, "out/x: cannot write out");
    memset(text, 'y', sizeof text);
    text[sizeof text - 1] = '\0';
    err_rename(&e, "out", text);
    assert_int_equal(strlen(e.text), sizeof e.text - 1);
}

static void words_of_statuses(void **state)
{
    (void)state;
    for (int st = OK; st <= ERR_PEER; st++) {
        assert_int_equal(status_of_word(status_word((enum status)st)), st);
        for (int other = OK; other < st; other++)
            assert_string_not_equal(status_text((enum status)st), status_text((enum status)other));
    }
    assert_string_equal(status_word(ERR_NOMEM), "no_memory");
    assert_int_equal(status_of_word("no such word"), ERR_FORMAT);
    assert_int_equal(status_of_word(""), ERR_FORMAT);
    assert_int_equal(status_of_word(NULL), ERR_FORMAT);
    assert_string_equal(status_text((enum status)1000), "unknown status");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(macros_pass_the_first_cause),
        cmocka_unit_test(nobody_needs_to_listen),
        cmocka_unit_test(prefixes_stand_before_the_message),
        cmocka_unit_test(long_texts),
        cmocka_unit_test(other_names),
        cmocka_unit_test(words_of_statuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

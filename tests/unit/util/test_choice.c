/* Choices "KEY=PATTERN", and sets of texts. */
#include "util/texts.h"
#include "util/words.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void patterns_choose_by_key(void **state)
{
    (void)state;
    static const char *const only[] = {"model=olmo*", "bits=[34]", "model=*7b", "name=a=b"};
    const int64_t n = sizeof only / sizeof *only;
    assert_string_equal(choice_pattern("name=a=b", "name"), "a=b");
    assert_string_equal(choice_pattern("name=", "name"), "");
    assert_null(choice_pattern("names=a", "name"));
    assert_null(choice_pattern("name", "name"));
    assert_true(choices_name(only, n, "bits") && !choices_name(only, n, "bit"));
    assert_true(choices_take(only, n, "bits", "3") && !choices_take(only, n, "bits", "34"));
    assert_true(choices_take(only, n, "model", "olmo2-7b"));
    assert_false(choices_take(only, n, "model", "olmo2-1b")); /* all must hold */
    assert_true(choices_take(only, n, "checkpoint", "any"));
    assert_true(choices_take(NULL, 0, "model", "any"));
}

static void sets_of_texts(void **state)
{
    (void)state;
    static const char *const added[] = {"b", "a", "b", "", "a"}, *const kept[] = {"b", "a", ""};
    struct texts t = {0};
    for (size_t i = 0; i < sizeof added / sizeof *added; i++)
        assert_int_equal(texts_add(&t, added[i], NULL), OK);
    assert_int_equal(t.n, 3);
    for (int64_t i = 0; i < t.n; i++) assert_string_equal(t.text[i], kept[i]);
    texts_free(&t);
    assert_int_equal(t.n, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patterns_choose_by_key),
        cmocka_unit_test(sets_of_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Invalid UTF-8 against Python's results, and regular expressions on which PCRE2 and Oniguruma
 * disagree. */
#include "tokenizer/pattern.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/utf8.h"
#include "util/clock.h"
#include "util/json.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
// clang-format off
#include <cmocka.h>
// clang-format on

static size_t from_hex(const char *hex, char *out)
{
    size_t n = strlen(hex) / 2;
    for (size_t i = 0; i < n; i++) {
        unsigned value;
        assert_int_equal(sscanf(hex + 2 * i, "%2x", &value), 1);
        out[i] = (char)value;
    }
    return n;
}

static void same_ids(const struct tokenizer *t, const char *a, size_t n_a, const char *b,
                     size_t n_b)
{
    struct err e = {0};
    int32_t *ids_a, *ids_b;
    int64_t k_a, k_b;
    assert_int_equal(tokenizer_encode(t, a, n_a, false, &ids_a, &k_a, &e), OK);
    assert_int_equal(tokenizer_encode(t, b, n_b, false, &ids_b, &k_b, &e), OK);
    assert_int_equal(k_a, k_b);
    assert_memory_equal(ids_a, ids_b, (size_t)k_a * sizeof *ids_a);
    free(ids_a);
    free(ids_b);
}

static void test_invalid_utf8(void **state)
{
    (void)state;
    struct err e = {0};
    json_t *root, *row;
    size_t i;
    struct tokenizer *t = NULL;
    assert_int_equal(json_read_file(FIXTURES "/tokenizers/invalid_utf8.json", 0, &root, &e), OK);
    assert_int_equal(tokenizer_open(FIXTURES "/tokenizers/llama3/tokenizer.json", &t, &e), OK);
    assert_true(json_array_size(root) > 400);
    json_array_foreach(root, i, row) {
        char in[100], want[400];
        struct buf out = {0};
        size_t n_in = from_hex(json_string_value(json_array_get(row, 0)), in);
        size_t n_want = from_hex(json_string_value(json_array_get(row, 1)), want);
        assert_int_equal(utf8_add_replaced(&out, in, n_in, &e), OK);
        assert_int_equal(out.n, n_want);
        assert_memory_equal(out.data, want, n_want);
        same_ids(t, in, n_in, want, n_want);
        buf_free(&out);
    }
    tokenizer_close(t);
    json_decref(root);
}

/* The first match of a pattern, as [from, to). */
static void expect_match(const char *regex, const char *text, int64_t from, int64_t to)
{
    struct err e = {0};
    struct pattern *p = NULL;
    struct pattern_work *w = NULL;
    int64_t start, end;
    if (pattern_compile(regex, strlen(regex), false, &p, &e) != OK) fail_msg("%s", e.text);
    assert_int_equal(pattern_work_new(&w, &e), OK);
    assert_int_equal(pattern_find(p, w, text, strlen(text), 0, &start, &end, &e), OK);
    if (start != from || end != to)
        fail_msg("%s: %lld..%lld", regex, (long long)start, (long long)end);
    pattern_work_free(w);
    pattern_free(p);
}

static void expect_refusal(const char *regex, enum status want, const char *words)
{
    struct err e = {0};
    struct pattern *p = NULL;
    assert_int_equal(pattern_compile(regex, strlen(regex), false, &p, &e), want);
    if (!strstr(e.text, words)) fail_msg("%s: \"%s\"", regex, e.text);
}

static void shorthands_are_unicode(void **state)
{
    (void)state;
    expect_match("\\s", "\xE1\xA0\x8E ", 3, 4);            /* U+180E is not White_Space */
    expect_match("[^\\s]", "\xC2\x85 \xE1\xA0\x8E", 3, 6); /* U+0085 is */
    expect_match("\\S+", " \xE2\x80\xA8xy\xE3\x80\x80", 4, 6);
    expect_match("\\w+", "-e\xCC\x81_\xE2\x80\xBF-", 1, 8); /* marks and connectors are \w */
    expect_match("\\W", "e\xCC\x81!", 3, 4);
    expect_match("(?i:'s)", "x'\xC5\xBF", 1, 4); /* long s */
    expect_match("^b$", "a\nb\nc", 2, 3);
    expect_match("[]a]+", "b]a", 1, 3);
    expect_match("x", "abc", -1, -1);
    expect_match("(?i)B{2}", "abb", 1, 3);
    expect_match("\\x{62}+\\p{L}+[{1}]+", "ab{", -1, -1);
    expect_match("\\x{62}+\\p{L}+[{1}]+", "abbc{", 1, 5);
}

static void unknown_syntax_is_refused(void **state)
{
    (void)state;
    expect_refusal("a(b", ERR_FORMAT, "missing closing parenthesis");
    expect_refusal("a\\", ERR_FORMAT, "backslash");
    expect_refusal("[a&&b]", ERR_USAGE, "&&");
    expect_refusal("[a[bc]]", ERR_USAGE, "nested");
    expect_refusal("\\h", ERR_USAGE, "\\h");
    expect_refusal("[\\S]", ERR_USAGE, "\\S");
    expect_refusal("(?m:.)", ERR_USAGE, "option m");
    expect_refusal("a(?i)b|c", ERR_USAGE, "(?i)");
    expect_refusal("\\p{N}{1,3}+", ERR_USAGE, "{1,3}+");
    expect_refusal("a{,3}", ERR_USAGE, "{,3}");
    expect_refusal("\\C", ERR_USAGE, "\\C"); /* would split a character */
    expect_refusal("(*LIMIT_MATCH=9)a", ERR_USAGE, "(*");
}

/* A pattern whose time doubles with each further byte ends with a message, and soon. */
static void exponential_patterns_end_with_a_message(void **state)
{
    (void)state;
    static const char *const patterns[] = {"(?:a+)+[bc]", "(?:a|a)+[bc]", "(?:a*)*(?=[bc])",
                                           "^(?:(a|aa)+)+$", "(?:\\p{L}+\\s?)+\\d"};
    char text[2000];
    memset(text, 'a', sizeof text);
    text[sizeof text - 1] = '!';
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        struct err e = {0};
        struct pattern *p = NULL;
        struct pattern_work *w = NULL;
        int64_t start, end;
        assert_int_equal(pattern_compile(patterns[i], strlen(patterns[i]), false, &p, &e), OK);
        assert_int_equal(pattern_work_new(&w, &e), OK);
        double begun = clock_seconds();
        assert_int_equal(pattern_find(p, w, text, sizeof text, 0, &start, &end, &e), ERR_NUMERIC);
        if (clock_seconds() - begun > 2) fail_msg("%s: %g s", patterns[i], clock_seconds() - begun);
        assert_non_null(strstr(e.text, "takes too long"));
        pattern_work_free(w);
        pattern_free(p);
    }
}

/* More nesting than the JIT's stack can hold: the interpreter takes over. */
static void deep_matches_leave_the_jit(void **state)
{
    (void)state;
    enum { N = 300000 };
    char *text = malloc(N + 1);
    assert_non_null(text);
    memset(text, 'a', N);
    text[N] = 0;
    expect_match("(?:a|b(?=c))+", text, 0, N);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_invalid_utf8),
        cmocka_unit_test(shorthands_are_unicode),
        cmocka_unit_test(unknown_syntax_is_refused),
        cmocka_unit_test(exponential_patterns_end_with_a_message),
        cmocka_unit_test(deep_matches_leave_the_jit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

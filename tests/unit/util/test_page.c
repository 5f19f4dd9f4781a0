/* Text for people: broken lines, the width of a page, counts and times. */
#include "util/page.h"
#include "util/quantity.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char *printed(int64_t width, int64_t indent, int64_t at, const char *text)
{
    char *out = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&out, &n);
    page_print(f, width, indent, at, text);
    fclose(f);
    return out;
}

static void lines_are_broken_at_blanks(void **state)
{
    (void)state;
    static const struct {
        int64_t width, indent, at;
        const char *text, *expected;
    } cases[] = {
        {80, 0, 0, "", "\n"},
        {80, 0, 0, "one two", "one two\n"},
        {7, 0, 0, "one two", "one two\n"},
        {6, 0, 0, "one two", "one\ntwo\n"},
        {10, 2, 4, "one two  three", "one\n  two\n  three\n"},
        {5, 0, 0, "incomprehensible word", "incomprehensible\nword\n"},
        {7, 1, 0, "größe Ä ö", "größe Ä\n ö\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *out = printed(cases[i].width, cases[i].indent, cases[i].at, cases[i].text);
        assert_string_equal(out, cases[i].expected);
        free(out);
    }
}

static void width_of_a_page(void **state)
{
    (void)state;
    char *out = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&out, &n);
    unsetenv("COLUMNS");
    assert_int_equal(page_width(f, 100), 100);
    setenv("COLUMNS", "133", 1);
    assert_int_equal(page_width(f, 100), 133);
    setenv("COLUMNS", "3", 1);
    assert_int_equal(page_width(f, 100), 40);
    setenv("COLUMNS", "12x", 1);
    assert_int_equal(page_width(f, 100), 100);
    unsetenv("COLUMNS");
    fclose(f);
    free(out);
    assert_int_equal(page_columns("größe"), 5);
    assert_int_equal(page_columns(NULL), 0);
}

/* Only lines that are too long are broken; blanks of the others stay. */
static void long_lines_are_broken(void **state)
{
    (void)state;
    char text[] = "a  b   c\n\none two three four\n", *printed = NULL;
    size_t n;
    FILE *out = open_memstream(&printed, &n);
    assert_non_null(out);
    page_print_lines(out, 10, 2, text);
    fclose(out);
    assert_string_equal(printed, "a  b   c\n\none two\n  three\n  four\n");
    free(printed);
}

static void counts_and_times(void **state)
{
    (void)state;
    static const struct {
        double value;
        const char *count, *time;
    } cases[] = {{0, "0", "0 s"},           {0.25, "0.25", "0.25 s"},
                 {89, "89", "89 s"},        {819200, "819k", "9.48 days"},
                 {999.6, "1k", "16.7 min"}, {5399, "5.4k", "90 min"},
                 {2.5e12, "2.5T", NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[QUANTITY];
        quantity_count(cases[i].value, text);
        assert_string_equal(text, cases[i].count);
        if (!cases[i].time) continue;
        quantity_time(cases[i].value, text);
        assert_string_equal(text, cases[i].time);
    }
    char text[QUANTITY];
    quantity_time(8.5e-14, text);
    assert_string_equal(text, "0 s");
    static const struct {
        double x;
        int digits;
        const char *text;
    } plain[] = {
        {6690, 3, "6690"},         {6.694, 3, "6.69"}, {3e-4, 3, "0.0003"},     {3e-5, 3, "3e-5"},
        {1.25e-12, 3, "1.25e-12"}, {999.6, 3, "1000"}, {123456.7, 4, "123457"}, {0, 3, "0"},
        {-2e-7, 3, "-2e-7"},       {2e15, 3, "2e+15"}};
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) {
        quantity_plain(plain[i].x, plain[i].digits, text);
        assert_string_equal(text, plain[i].text);
    }
    quantity_prefix(2.97e9, text);
    assert_string_equal(text, "2.97G");
    quantity_prefix(3.86e17, text);
    assert_string_equal(text, "386P");
    assert_string_equal(quantity_plural(1), "");
    assert_string_equal(quantity_plural(0), "s");
    assert_string_equal(quantity_plural(2), "s");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_are_broken_at_blanks),
        cmocka_unit_test(width_of_a_page),
        cmocka_unit_test(long_lines_are_broken),
        cmocka_unit_test(counts_and_times),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

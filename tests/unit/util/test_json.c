/* JSON: positions of errors, numbers that JSON lacks, exact doubles. */
#include "scratch.h"
#include "util/json.h"
#include <float.h>
#include <math.h>
#include <sys/resource.h>
#include <unistd.h>

static enum status parse(const char *text, size_t n, json_t **out, struct err *e)
{
    *out = NULL;
    err_clear(e);
    return json_read_text("name", text, n, out, e);
}

static void errors_say_where(void **state)
{
    (void)state;
    static const struct {
        const char *text, *expected;
    } bad[] = {
        {"", "name:1:"},
        {"{\"a\": 1,\n  2}", "name:2:"},
        {"{\"a\": 1, \"a\": 2}", "duplicate"},
        {"[1] 2", "end of file expected"},
        {"[nan]", "name:1:"},
        {"[\"\xff\"]", "name:1:"},
    };
    struct err e = {0};
    json_t *json;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(parse(bad[i].text, strlen(bad[i].text), &json, &e), ERR_FORMAT);
        if (!strstr(e.text, bad[i].expected))
            fail_msg("%s: %s, not %s", bad[i].text, e.text, bad[i].expected);
        assert_null(json);
    }
    assert_int_equal(parse("[1]x", 3, &json, &e), OK); /* n bytes, no NUL after them */
    json_decref(json);
    assert_int_equal(parse("[\"a\\u0000b\"]", 12, &json, &e), OK);
    assert_int_equal(json_string_length(json_array_get(json, 0)), 3);
    json_decref(json);
}

static void files_that_cannot_be_read_are_named(void **state)
{
    (void)state;
    struct err e = {0};
    json_t *json = NULL;
    assert_int_equal(json_read_file(scratch_path("absent.json"), 0, &json, &e), ERR_IO);
    assert_non_null(strstr(e.text, "absent.json: No such file"));
    err_clear(&e);
    const char *path = scratch_put("bad.json", "[\n1,]", 5);
    assert_int_equal(json_read_file(path, 0, &json, &e), ERR_FORMAT);
    assert_non_null(strstr(e.text, "bad.json:2:"));
    err_clear(&e);
    path = scratch_put("good.json", "{\"a\": [1, 2]}\n", 14);
    assert_int_equal(json_read_file(path, 13, &json, &e), ERR_FORMAT); /* too large */
    assert_int_equal(json_read_file(path, 14, &json, NULL), OK);
    assert_int_equal(json_array_size(json_object_get(json, "a")), 2);
    json_decref(json);
}

/* Numbers are bitwise equal after a round trip through text. */
static void numbers_keep_their_bits(void **state)
{
    (void)state;
    const double values[] = {0.1,     1e300,  -DBL_MAX,        DBL_MIN,  0x1p-1074,
                             1.0 / 3, 0x1p53, 123456789012.25, INFINITY, -INFINITY};
    enum { N = sizeof values / sizeof *values };
    json_t *array = json_numbers_new(values, N), *back;
    struct err e = {0};
    assert_int_equal(json_array_size(array), N);
    char *text = json_dumps(array, JSON_COMPACT);
    if (parse(text, strlen(text), &back, &e) != OK) fail_msg("%s", e.text);
    for (size_t i = 0; i < N; i++) {
        double value = json_number_get(json_array_get(back, i));
        assert_memory_equal(&value, &values[i], sizeof value);
    }
    assert_non_null(strstr(text, "\"inf\",\"-inf\""));
    free(text);
    json_decref(array);
    json_decref(back);
}

static void numbers_that_are_none(void **state)
{
    (void)state;
    json_t *nan = json_number_new(NAN), *integer = json_integer(7), *other = json_string("x");
    assert_string_equal(json_string_value(nan), "nan");
    assert_true(isnan(json_number_get(nan)));
    assert_true(json_number_get(integer) == 7);
    assert_true(isnan(json_number_get(other)));
    assert_true(isnan(json_number_get(NULL)));
    json_decref(nan);
    json_decref(integer);
    json_decref(other);
}

static void texts_with_a_default(void **state)
{
    (void)state;
    json_t *object = json_pack("{s:s, s:i}", "a", "b", "n", 1);
    assert_string_equal(json_text(object, "a", "x"), "b");
    assert_string_equal(json_text(object, "n", "x"), "x");
    assert_string_equal(json_text(object, "absent", "x"), "x");
    assert_null(json_text(NULL, "a", NULL));
    json_decref(object);
}

/* What is left of a text without members named a and b. */
static void members_are_cut(void **state)
{
    (void)state;
    static const char *const names[] = {"a", "b", NULL};
    static const char *const texts[][2] = {
        {"{}", "{}"},
        {"{\"a\":1}", "{}"},
        {"{\"a\":1,\"b\":[2,{\"c\":3}],\"c\":4}", "{\"c\":4}"},
        {"{\"c\":4,\"a\":{\"x\":[1,2]},\"b\":\"}],\\\"\"}", "{\"c\":4}"},
        {"{\"c\":4,\"a\":-1e3,\"d\":[{\"b\":null,\"e\":1},{\"b\":[]}]}",
         "{\"c\":4,\"d\":[{\"e\":1},{}]}"},
        {"{\"aa\":1,\"c\":\"a\",\"d\":[\"a\",\"b\"]}",
         "{\"aa\":1,\"c\":\"a\",\"d\":[\"a\",\"b\"]}"},
        {"{\"c\":\"\\\\\",\"a\":\"\\\\\\\"\",\"d\":\"\\\"a\\\":1\"}",
         "{\"c\":\"\\\\\",\"d\":\"\\\"a\\\":1\"}"},
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char text[200];
        snprintf(text, sizeof text, "%s", texts[i][0]);
        size_t n = json_cut_members(text, strlen(text), names);
        assert_int_equal(n, strlen(texts[i][1]));
        assert_memory_equal(text, texts[i][1], n);
    }
}

/* A text that ends anywhere is cut without reading behind it. */
static void torn_texts_are_cut(void **state)
{
    (void)state;
    static const char *const names[] = {"a", NULL};
    static const char whole[] = "{\"a\":{\"x\":\"\\\"\"},\"c\":\"\\\\\",\"a\":[1]}";
    for (size_t n = 0; n < sizeof whole; n++) {
        char *text = malloc(n + 1); /* AddressSanitizer sees what is behind */
        assert_non_null(text);
        memcpy(text, whole, n);
        assert_true(json_cut_members(text, n, names) <= n);
        free(text);
    }
}

static void numbers_are_short(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "[0.1,1e-6,10000000000000000.0,1e17,1.0,-0.0,5e-324,0.02,0.30000000000000004,10000.0,-2.5,"
        "-1.7976931348623157e308,0.0001,123456.75]",
        "{\"a 0.10000000000000001\":\"1.50 \\\" "
        "2.50\",\"n\":12345678901234567,\"t\":[true,null,false]}"};
    for (size_t i = 0; i < 2; i++) {
        json_t *value = json_loads(texts[i], 0, NULL), *back;
        assert_non_null(value);
        char *text = json_write_text(value, JSON_COMPACT);
        assert_string_equal(text, texts[i]);
        assert_non_null(back = json_loads(text, 0, NULL));
        assert_true(json_equal(back, value));
        free(text);
        json_decref(back);
        json_decref(value);
    }
}

/* Without memory for a key, the text is not one without that key. */
static void a_text_is_whole_or_none(void **state)
{
    (void)state;
    enum { KEY = 64 << 20 };
    struct rlimit before, tight;
    long pages = 0;
    char *key = malloc(KEY + 1);
#ifdef __SANITIZE_ADDRESS__
    skip(); /* it ends a process that gets no memory */
#endif
    json_setup();
    memset(key, 'k', KEY);
    key[KEY] = '\0';
    json_t *value = json_pack("{s:i}", key, 1);
    assert_non_null(value);
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f || fscanf(f, "%ld", &pages) != 1) skip();
    fclose(f);
    assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
    tight = before;
    tight.rlim_cur = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + (KEY / 2);
    assert_int_equal(setrlimit(RLIMIT_AS, &tight), 0);
    char *text = json_dump_whole(value, JSON_COMPACT);
    assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
    assert_null(text);
    text = json_dump_whole(value, JSON_COMPACT);
    assert_int_equal(strlen(text), KEY + 6);
    free(text);
    json_decref(value);
    free(key);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_say_where),
        cmocka_unit_test(files_that_cannot_be_read_are_named),
        cmocka_unit_test(numbers_keep_their_bits),
        cmocka_unit_test(numbers_that_are_none),
        cmocka_unit_test(texts_with_a_default),
        cmocka_unit_test(members_are_cut),
        cmocka_unit_test(torn_texts_are_cut),
        cmocka_unit_test(numbers_are_short),
        cmocka_unit_test(a_text_is_whole_or_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

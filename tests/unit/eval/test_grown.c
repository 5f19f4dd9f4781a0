/* grown: a text that was appended to begins with what it was, and who reads only of that reads the
 * same. */
#include "eval/dataset.h"
#include "eval/grown.h"
#include "scratch.h"
#include "util/hash.h"
#include "util/mem.h"

static void put(const char *name, const char *text, const char *mode)
{
    FILE *f = fopen(scratch_path(name), mode);
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

/* Where in the files of d the text with that digest ends; "": nowhere. Static. */
static const char *start_of(const struct data_options *d, const char *digest)
{
    static char text[64];
    json_t *found, *known = json_pack("{s:b, s:b}", digest, 1, "of another", 1);
    assert_int_equal(grown_starts(d, known, &found, NULL), OK);
    const json_t *at = json_object_get(found, digest);
    text[0] = '\0';
    if (at)
        snprintf(text, sizeof text, "%lld %lld",
                 (long long)json_integer_value(json_array_get(at, 0)),
                 (long long)json_integer_value(json_array_get(at, 1)));
    json_decref(found);
    json_decref(known);
    return text;
}

/* The text before and after the change, and where in the new one the old one ends. */
static void a_start_ends_with_a_line_or_file(void **state)
{
    (void)state;
    static const struct {
        const char *before, *after, *ends;
    } of[] = {
        {"one\ntwo\n", "one\ntwo\nthree\n", "1 8"},
        {"one\ntwo", "one\ntwo\nthree\n", "1 7"},
        {"one\ntwo", "one\ntwo more\n", ""},
        {"one\ntwo\n", "zero\none\ntwo\n", ""},
        {"one\ntwo\n", "one\n", ""},
        {"one\ntwo\n", "one\ntoo\nthree\n", ""},
        {"", "one\n", ""},
    };
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        char hash[HASH_HEX];
        struct data_options d = {0};
        put("text", of[i].before, "w");
        assert_int_equal(mem_string(&d.text, scratch_path("text"), NULL), OK);
        assert_int_equal(dataset_hash(&d, hash, NULL), OK);
        put("text", of[i].after, "w");
        assert_string_equal(start_of(&d, hash), of[i].ends);
        free(d.text);
    }
}

static void files_that_are_added_or_grow(void **state)
{
    (void)state;
    char one[HASH_HEX], two[HASH_HEX];
    struct data_options d = {0};
    put("part-1", "one\n", "w");
    assert_int_equal(mem_string(&d.text, scratch_path("part-*"), NULL), OK);
    assert_int_equal(dataset_hash(&d, one, NULL), OK);
    put("part-2", "two\n", "w");
    assert_string_equal(start_of(&d, one), "1 4");
    assert_int_equal(dataset_hash(&d, two, NULL), OK);
    put("part-3", "three\n", "w");
    assert_string_equal(start_of(&d, one), "1 4");
    assert_string_equal(start_of(&d, two), "2 4");
    put("part-2", "more\n", "a");
    assert_string_equal(start_of(&d, two), "2 4");
    put("part-1", "more\n", "a"); /* the second file is not the next any more */
    assert_string_equal(start_of(&d, one), "1 4");
    assert_string_equal(start_of(&d, two), "");
    free(d.text);
}

/* Of 40 documents, half of which were appended. */
static void who_reads_the_same(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        struct data_options options;
        bool pool, same;
    } of[] = {
        {"samples", {.length = 4, .samples = 5}, false, true},
        {"tokens", {.length = 4, .tokens = 21}, false, true},
        {"skip", {.length = 4, .skip = 3, .samples = 4}, false, true},
        {"skipped behind the start",
         {.layout = LAYOUT_DOCUMENT, .skip = 20, .samples = 4},
         false,
         false},
        {"documents", {.length = 4, .documents = 20}, false, true},
        {"one more", {.length = 4, .documents = 21}, false, false},
        {"bytes", {.length = 4, .bytes = 90}, false, true},
        {"all", {.length = 4}, false, false},
        {"more than there were", {.layout = LAYOUT_DOCUMENT, .samples = 21}, false, false},
        {"a draw", {.length = 4, .documents = 3, .draw = 1}, false, false},
        {"one each", {.layout = LAYOUT_DOCUMENT, .samples = 20}, false, true},
        {"padded, sorted, cut",
         {.layout = LAYOUT_DOCUMENT,
          .samples = 4,
          .cut = 3,
          .sort = SORT_LENGTH,
          .padding = PADDING_COUNTED,
          .batch = 2,
          .pad_id = -1},
         false,
         true},
        {"positions",
         {.layout = LAYOUT_DOCUMENT, .samples = 4, .within_positions = true},
         false,
         true},
        {"positions that are not known",
         {.length = 4, .samples = 4, .within_positions = true},
         false,
         false},
        {"replicates", {.layout = LAYOUT_DOCUMENT, .samples = 5}, true, false},
    };
    struct tokenizer *t;
    assert_int_equal(tokenizer_open(FIXTURES "/tokenizers/gpt2/tokenizer.json", &t, NULL), OK);
    put("lines", "", "w");
    for (int i = 0; i < 20; i++) put("lines", "{\"t\": \" one two three four\"}\n", "a");
    for (int i = 0; i < 20; i++) put("lines", "{\"t\": \" five six seven eight\"}\n", "a");
    const struct text_start start = {1, 20 * 29};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        bool same = !of[i].same;
        struct data_options d = of[i].options;
        assert_int_equal(mem_string(&d.text, scratch_path("lines"), NULL), OK);
        d.field = (char[]){"t"};
        assert_int_equal(dataset_starts_alike(&d, t, &start, of[i].pool, &same, NULL), OK);
        if (same != of[i].same) fail_msg("%s: %d", of[i].what, same);
        free(d.text);
    }
    tokenizer_close(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_start_ends_with_a_line_or_file),
        cmocka_unit_test(files_that_are_added_or_grow),
        cmocka_unit_test(who_reads_the_same),
    };
    return cmocka_run_group_tests_name("grown", tests, NULL, NULL);
}

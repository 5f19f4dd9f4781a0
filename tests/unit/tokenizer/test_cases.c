/* Every case for which the library tokenizers (Python, 0.23.3) gave reference values: ids, ids with
 * BOS, decoding. */
#include "tokenizer/tokenizer.h"
#include "util/json.h"
#include "util/mem.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
// clang-format off
#include <cmocka.h>
// clang-format on

static struct tokenizer *open_in(const char *folder, const char *name, json_t **cases)
{
    struct err e = {0};
    struct tokenizer *t = NULL;
    char *path;
    assert_int_equal(mem_format(&path, &e, "%s/%s/cases.json", folder, name), OK);
    assert_int_equal(json_read_file(path, 0, cases, &e), OK);
    free(path);
    assert_int_equal(mem_format(&path, &e, "%s/%s/tokenizer.json", folder, name), OK);
    if (tokenizer_open(path, &t, &e) != OK) fail_msg("%s", e.text);
    free(path);
    return t;
}

static void check_ids(const char *name, size_t i, const json_t *want, const json_t *bos,
                      const int32_t *ids, int64_t n)
{
    int64_t extra = bos ? 1 : 0;
    bool same = n == (int64_t)json_array_size(want) + extra;
    if (same && bos) same = ids[0] == json_integer_value(bos);
    for (int64_t k = extra; same && k < n; k++)
        same = ids[k] == json_integer_value(json_array_get(want, (size_t)(k - extra)));
    if (same) return;
    print_message("%s: case %zu, want %s got:", name, i, json_dumps(want, JSON_COMPACT));
    for (int64_t k = 0; k < n; k++) print_message(" %d", ids[k]);
    fail_msg("%s: ids of case %zu differ", name, i);
}

static void check_case(const struct tokenizer *t, const char *name, size_t i, const json_t *o)
{
    struct err e = {0};
    int32_t *ids;
    int64_t n_ids;
    char *decoded;
    size_t n;
    const json_t *text = json_object_get(o, "text"), *want = json_object_get(o, "ids");
    const json_t *back = json_object_get(o, "decoded");
    const char *s = json_string_value(text);
    for (int special = 0; special < 2; special++) {
        const json_t *bos = special ? json_object_get(o, "bos") : NULL;
        assert_int_equal(
            tokenizer_encode(t, s, json_string_length(text), special, &ids, &n_ids, &e), OK);
        check_ids(name, i, want, bos, ids, n_ids);
        if (!special) {
            assert_int_equal(tokenizer_decode(t, ids, n_ids, &decoded, &n, &e), OK);
            if (!back) back = text;
            if (n != json_string_length(back) || memcmp(decoded, json_string_value(back), n) != 0)
                fail_msg("%s: case %zu decodes to \"%s\"", name, i, decoded);
            free(decoded);
        }
        free(ids);
    }
}

/* Byte-level tokens stand for their bytes of the text, for any text; if the normalizer changes it,
 * for the bytes of the normalized text, which decoding returns. */
static void check_bytes(const struct tokenizer *t, const json_t *o)
{
    const json_t *back = json_object_get(o, "decoded"), *ids = json_object_get(o, "ids");
    if (!back) back = json_object_get(o, "text");
    int64_t sum = 0;
    for (size_t i = 0; i < json_array_size(ids); i++)
        sum += tokenizer_id_bytes(t, (int32_t)json_integer_value(json_array_get(ids, i)));
    assert_int_equal(sum, json_string_length(back));
}

static void run_cases(const char *folder, const char *name, bool byte_level)
{
    json_t *root, *o;
    size_t i;
    struct tokenizer *t = open_in(folder, name, &root);
    assert_int_equal(json_array_size(json_object_get(root, "cases")), 200);
    json_array_foreach(json_object_get(root, "cases"), i, o) {
        check_case(t, name, i, o);
        if (byte_level) check_bytes(t, o);
    }
    tokenizer_close(t);
    json_decref(root);
}

static const char *const byte_level[] = {"gpt2", "neox", "olmo2", "llama3", "smollm"};
static const char *const marked[] = {"llama2", "llama2_metaspace"};

static void byte_level_ids_are_the_recorded_ones(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof byte_level / sizeof *byte_level; i++)
        run_cases(FIXTURES "/tokenizers", byte_level[i], true);
}

static void byte_fallback_ids_are_the_recorded_ones(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof marked / sizeof *marked; i++)
        run_cases(FIXTURES "/tokenizers", marked[i], false);
}

/* The tokenizers of real models may not be stored in this repository. */
static void ids_of_real_tokenizers_are_the_recorded_ones(void **state)
{
    (void)state;
    struct err e = {0};
    struct stat info;
    const char *shared = getenv("QTRAJ_SHARED");
    static const char *const real[] = {"real_olmo1", "real_olmo2"};
    char *folder;
    assert_int_equal(mem_format(&folder, &e, "%s/fixtures/tokenizers",
                                shared ? shared : FIXTURES "/../../../shared"),
                     OK);
    for (size_t i = 0; i < 2; i++) {
        char *path;
        assert_int_equal(mem_format(&path, &e, "%s/%s", folder, real[i]), OK);
        if (stat(path, &info) == 0)
            run_cases(folder, real[i], true);
        else
            print_message("skipped: %s is not there\n", path);
        free(path);
    }
    free(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(byte_level_ids_are_the_recorded_ones),
        cmocka_unit_test(byte_fallback_ids_are_the_recorded_ones),
        cmocka_unit_test(ids_of_real_tokenizers_are_the_recorded_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

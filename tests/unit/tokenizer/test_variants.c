/* Every component and option with settings that the main fixtures lack; make_variants.py made
 * variants.json with the library's results. */
#include "tokenizer/tokenizer.h"
#include "util/json.h"
#include "util/mem.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
// clang-format off
#include <cmocka.h>
// clang-format on

static json_t *read_fixture(const char *name)
{
    struct err e = {0};
    json_t *root = NULL;
    char *path;
    assert_int_equal(mem_format(&path, &e, FIXTURES "/tokenizers/%s", name), OK);
    if (json_read_file(path, 0, &root, &e) != OK) fail_msg("%s", e.text);
    free(path);
    return root;
}

static struct tokenizer *open_document(const json_t *root)
{
    struct err e = {0};
    struct tokenizer *t = NULL;
    char path[] = "/tmp/qtraj_tokenizer_XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(json_dumpfd(root, fd, JSON_COMPACT), 0);
    close(fd);
    enum status st = tokenizer_open(path, &t, &e);
    unlink(path);
    if (st != OK) fail_msg("%s", e.text);
    return t;
}

/* The variant's base with its members replaced and tokens removed. */
static struct tokenizer *open_variant(const json_t *v)
{
    char base[100];
    size_t i;
    json_t *name;
    snprintf(base, sizeof base, "%s/tokenizer.json", json_text(v, "base", ""));
    json_t *root = read_fixture(base), *model = json_object_get(root, "model");
    json_object_update(root, json_object_get(v, "set"));
    json_object_update(model, json_object_get(v, "model"));
    json_array_foreach(json_object_get(v, "drop"), i, name)
        assert_int_equal(json_object_del(json_object_get(model, "vocab"), json_string_value(name)),
                         0);
    struct tokenizer *t = open_document(root);
    json_decref(root);
    return t;
}

static void check_case(const struct tokenizer *t, const char *name, size_t i, const json_t *o)
{
    struct err e = {0};
    const json_t *text = json_array_get(o, 0), *want = json_array_get(o, 1);
    const json_t *back = json_array_get(o, 2) ? json_array_get(o, 2) : text;
    int32_t *ids;
    int64_t n_ids;
    char *decoded;
    size_t n;
    if (tokenizer_encode(t, json_string_value(text), json_string_length(text), true, &ids, &n_ids,
                         &e) != OK)
        fail_msg("%s: %s", name, e.text);
    if (n_ids != (int64_t)json_array_size(want))
        fail_msg("%s: case %zu has %lld ids", name, i, (long long)n_ids);
    for (int64_t k = 0; k < n_ids; k++)
        if (ids[k] != json_integer_value(json_array_get(want, (size_t)k)))
            fail_msg("%s: case %zu, id %lld is %d", name, i, (long long)k, ids[k]);
    assert_int_equal(tokenizer_decode(t, ids, n_ids, &decoded, &n, &e), OK);
    if (n != json_string_length(back) || memcmp(decoded, json_string_value(back), n) != 0)
        fail_msg("%s: case %zu decodes to \"%s\"", name, i, decoded);
    free(decoded);
    free(ids);
}

static void variants_encode_as_recorded(void **state)
{
    (void)state;
    json_t *root = read_fixture("variants.json"), *v, *o;
    size_t i, k;
    assert_true(json_array_size(root) > 50);
    json_array_foreach(root, i, v) {
        struct tokenizer *t = open_variant(v);
        json_array_foreach(json_object_get(v, "cases"), k, o)
            check_case(t, json_text(v, "name", ""), k, o);
        tokenizer_close(t);
    }
    json_decref(root);
}

/* Ids of all cases of a tokenizer from several threads at once, compared with those of one thread.
 */
static void same_ids_from_any_thread(void **state)
{
    (void)state;
    json_t *root = read_fixture("olmo2/cases.json"), *doc = read_fixture("olmo2/tokenizer.json");
    const json_t *cases = json_object_get(root, "cases");
    struct tokenizer *t = open_document(doc);
    int wrong = 0;
    const int rounds = 20;
#pragma omp parallel for num_threads(4) reduction(+ : wrong) schedule(dynamic)
    for (int i = 0; i < rounds * (int)json_array_size(cases); i++) {
        const json_t *o = json_array_get(cases, (size_t)i / (size_t)rounds);
        const json_t *text = json_object_get(o, "text"), *want = json_object_get(o, "ids");
        int32_t *ids = NULL;
        int64_t n = 0;
        enum status st = tokenizer_encode(t, json_string_value(text), json_string_length(text),
                                          false, &ids, &n, NULL);
        bool same = st == OK && n == (int64_t)json_array_size(want);
        for (int64_t k = 0; same && k < n; k++)
            same = ids[k] == json_integer_value(json_array_get(want, (size_t)k));
        wrong += !same;
        free(ids);
    }
    assert_int_equal(wrong, 0);
    tokenizer_close(t);
    json_decref(doc);
    json_decref(root);
}

static void test_ids_out_of_range(void **state)
{
    (void)state;
    struct err e = {0};
    json_t *doc = read_fixture("gpt2/tokenizer.json");
    struct tokenizer *t = open_document(doc);
    int64_t n_ids = tokenizer_n_ids(t);
    char *text;
    size_t n;
    assert_int_equal(n_ids, 1000);
    assert_int_equal(tokenizer_id_bytes(t, -1), 0);
    assert_int_equal(tokenizer_id_bytes(t, (int32_t)n_ids), 0);
    assert_int_equal(tokenizer_id_bytes(t, 0), strlen("<|endoftext|>"));
    int32_t ids[] = {-5, 65, (int32_t)n_ids, INT32_MAX, 65};
    assert_int_equal(tokenizer_decode(t, ids, 5, &text, &n, &e), OK);
    assert_string_equal(text, "aa");
    assert_int_equal(n, 2);
    free(text);
    assert_int_equal(tokenizer_decode(t, ids, 0, &text, &n, &e), OK);
    assert_string_equal(text, "");
    free(text);
    tokenizer_close(t);
    json_decref(doc);
}

/* ▁ and <0xXX> stand for one byte each. */
static void marks_and_byte_tokens_count_one_byte(void **state)
{
    (void)state;
    struct err e = {0};
    json_t *doc = read_fixture("llama2/tokenizer.json");
    struct tokenizer *t = open_document(doc);
    static const char text[] = "The ferry left \xE2\x98\x83 at dawn";
    int32_t *ids;
    int64_t n, sum = 0;
    assert_int_equal(tokenizer_encode(t, text, sizeof text - 1, true, &ids, &n, &e), OK);
    assert_int_equal(ids[0], 1);
    for (int64_t i = 1; i < n; i++) sum += tokenizer_id_bytes(t, ids[i]);
    assert_int_equal(sum, sizeof text - 1 + 1); /* and the ▁ that the normalizer prepends */
    assert_int_equal(tokenizer_id_bytes(t, 1), strlen("<s>"));
    free(ids);
    tokenizer_close(t);
    json_decref(doc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(variants_encode_as_recorded),
        cmocka_unit_test(same_ids_from_any_thread),
        cmocka_unit_test(test_ids_out_of_range),
        cmocka_unit_test(marks_and_byte_tokens_count_one_byte),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

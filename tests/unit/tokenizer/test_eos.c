/* Special tokens by name: what the template adds, tokens by their text, the end-of-text token by
 * the files beside a tokenizer.json. */
#include "tokenizer/eos.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/utf8.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char dir[] = "/tmp/qtraj_eos_XXXXXX";

static void put(const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    if (!text) {
        remove(path);
        return;
    }
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fputs(text, f) < 0, 0);
    assert_int_equal(fclose(f), 0);
}

static int setup(void **state)
{
    (void)state;
    if (!mkdtemp(dir)) return 1;
    put("tokenizer.json",
        "{\"added_tokens\": [{\"id\": 3, \"content\": \"<end>\", \"special\": true},"
        "                    {\"id\": 9, \"content\": \"<bos>\", \"special\": true}],"
        " \"post_processor\": {\"type\": \"TemplateProcessing\","
        "  \"single\": [{\"SpecialToken\": {\"id\": \"<bos>\", \"type_id\": 0}},"
        "             {\"Sequence\": {\"id\": \"A\", \"type_id\": 0}},"
        "             {\"SpecialToken\": {\"id\": \"<end>\", \"type_id\": 0}}],"
        "  \"pair\": [], \"special_tokens\": {"
        "   \"<bos>\": {\"id\": \"<bos>\", \"ids\": [9], \"tokens\": [\"<bos>\"]},"
        "   \"<end>\": {\"id\": \"<end>\", \"ids\": [3], \"tokens\": [\"<end>\"]}}},"
        " \"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 1, \"ab\": 2},"
        "             \"merges\": [\"a b\"]}}");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", dir);
    return system(command);
}

static struct tokenizer *open_own(void)
{
    struct tokenizer *t = NULL;
    struct err e = {0};
    char path[256];
    snprintf(path, sizeof path, "%s/tokenizer.json", dir);
    if (tokenizer_open(path, &t, &e) != OK) fail_msg("%s", e.text);
    return t;
}

static void tokens_are_found_by_name(void **state)
{
    (void)state;
    const int32_t *before, *behind;
    int64_t n_before, n_behind;
    struct tokenizer *t = open_own();
    assert_int_equal(tokenizer_find(t, "ab"), 2);
    assert_int_equal(tokenizer_find(t, "<end>"), 3);
    assert_int_equal(tokenizer_find(t, "<bos>"), 9);
    assert_int_equal(tokenizer_find(t, "<en"), -1);
    assert_int_equal(tokenizer_find(t, ""), -1);
    tokenizer_special(t, &before, &n_before, &behind, &n_behind);
    assert_int_equal(n_before, 1);
    assert_int_equal(before[0], 9);
    assert_int_equal(n_behind, 1);
    assert_int_equal(behind[0], 3);
    tokenizer_close(t);
}

/* st, e, id: result of a call; want, or if it must fail, code and a part of the message. */
static void check_call(enum status st, const struct err *e, int32_t id, int32_t want,
                       enum status code, const char *part)
{
    if (st != code) fail_msg("%s, expected %s: %s", status_text(st), status_text(code), e->text);
    if (st == OK)
        assert_int_equal(id, want);
    else if (!strstr(e->text, part))
        fail_msg("\"%s\" lacks \"%s\"", e->text, part);
}

static void check(int32_t want, enum status code, const char *part)
{
    struct tokenizer *t = open_own();
    struct err e = {0};
    int32_t id = -1;
    enum status st = tokenizer_eos(t, &id, &e);
    check_call(st, &e, id, want, code, part);
    tokenizer_close(t);
}

static void eos_comes_from_the_files_in_their_order(void **state)
{
    (void)state;
    check(0, ERR_USAGE, "no eos_token in a tokenizer_config.json");
    put("generation_config.json", "{\"eos_token_id\": [2, 1]}");
    check(2, OK, NULL);
    put("config.json", "{\"eos_token_id\": 1}");
    check(1, OK, NULL);
    put("config.json", "{\"eos_token_id\": null}");
    check(2, OK, NULL);
    put("config.json", "{\"eos_token_id\": 10}");
    check(0, ERR_USAGE, "the end-of-text token that config.json names (by its id) is not among");
    put("special_tokens_map.json", "{\"eos_token\": {\"content\": \"<end>\", \"lstrip\": false}}");
    check(3, OK, NULL);
    put("tokenizer_config.json",
        "{\"eos_token\": \"ab\", \"model_max_length\": 1000000000000000019884624838656}");
    check(2, OK, NULL);
    put("tokenizer_config.json", "{\"eos_token\": \"<gone>\"}");
    check(0, ERR_USAGE, "that tokenizer_config.json names (<gone>) is not among");
    put("tokenizer_config.json", "[]");
    check(0, ERR_FORMAT, "tokenizer_config.json: expected a JSON object");
    put("tokenizer_config.json", "{\"eos");
    check(0, ERR_FORMAT, "tokenizer_config.json");
}

static void check_pad(int32_t want, enum status code, const char *part)
{
    struct tokenizer *t = open_own();
    struct err e = {0};
    int32_t id = -1;
    enum status st = tokenizer_pad(t, NULL, &id, &e);
    check_call(st, &e, id, want, code, part);
    tokenizer_close(t);
}

/* The order in which Tokenicer looks. */
static void pad_is_where_tokenicer_looks(void **state)
{
    (void)state;
    put("tokenizer_config.json", NULL);
    put("special_tokens_map.json", NULL);
    put("generation_config.json", NULL);
    put("config.json", NULL);
    check_pad(0, ERR_USAGE, "no eos_token");
    put("config.json", "{\"eos_token_id\": 3}");
    check_pad(3, OK, NULL); /* nothing else is available */
    put("special_tokens_map.json", "{\"pad_token\": \"ab\"}");
    check_pad(2, OK, NULL);
    put("tokenizer_config.json", "{\"pad_token\": {\"content\": \"b\"}, \"eos_token\": \"a\"}");
    check_pad(1, OK, NULL);
    put("config.json", "{\"eos_token_id\": 3, \"pad_token_id\": 9}");
    check_pad(9, OK, NULL);
    put("config.json", "{\"eos_token_id\": 3, \"bos_token_id\": 9, \"pad_token_id\": 9}");
    check_pad(1, OK, NULL); /* the start or end token of a text is not used */
    put("config.json", "{\"eos_token_id\": 3, \"pad_token_id\": 3}");
    check_pad(1, OK, NULL);
    put("tokenizer_config.json", "{\"pad_token\": null}");
    check_pad(2, OK, NULL);
    put("special_tokens_map.json", "{\"pad_token\": \"<gone>\"}");
    check_pad(0, ERR_USAGE, "the padding token that special_tokens_map.json names (<gone>)");
    put("special_tokens_map.json", "{}");
    put("config.json", "{\"eos_token_id\": 1, \"pad_token_id\": 10}");
    check_pad(0, ERR_USAGE, "that config.json names (by its id)");

    /* a checkpoint's config.json that is not beside the tokenizer */
    int32_t id;
    struct err e = {0};
    put("config.json", NULL);
    struct tokenizer *t = open_own();
    assert_int_equal(tokenizer_pad(t, &(struct pad_hint){9, 0, 1}, &id, &e), OK);
    assert_int_equal(id, 9);
    assert_int_equal(tokenizer_pad(t, &(struct pad_hint){1, 0, 1}, &id, &e), OK);
    assert_int_equal(id, 1); /* the end-of-text token, because there is no other */
    assert_int_equal(tokenizer_pad(t, &(struct pad_hint){-1, -1, -1}, &id, &e), ERR_USAGE);
    tokenizer_close(t);
}

static void ill_formed_sequences_are_counted(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t want;
    } cases[] = {{"", 0},
                 {"plain text, long enough", 0},
                 {"\xC3\xA9", 0},
                 {"a\xFF", 1},
                 {"\xFF\xFF", 2},
                 {"\xE2\x82 ", 1},
                 {"\xF0\x9F\x98", 1},
                 {"\xED\xA0\x80", 3},
                 {"\xC3(\xC3", 2}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(utf8_count_ill_formed(cases[i].text, strlen(cases[i].text)),
                         cases[i].want);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_are_found_by_name),
        cmocka_unit_test(eos_comes_from_the_files_in_their_order),
        cmocka_unit_test(pad_is_where_tokenicer_looks),
        cmocka_unit_test(ill_formed_sequences_are_counted),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}

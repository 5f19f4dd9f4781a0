/* Sources of weights: opening, identity, JSON round trip; derived sources keep their parts open. */
#include "checkpoint/derived.h"
#include "engine/weights_greedy.h"
#include "options/options.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char path[] = CONFIGS "/quickstart/trajectory/step001200";
static char before[] = CONFIGS "/quickstart/trajectory/step001100";
static char name[] = "step1200", rtn[] = "rtn";

#define OK_OR_FAIL(call)                                                                           \
    do {                                                                                           \
        struct err err_ = {0}, *e = &err_;                                                         \
        if ((call) != OK) fail_msg("%s", err_.text);                                               \
    } while (0)

static struct weights stored[] = {{.name = name, .path = path, .coefficient = 0.5},
                                  {.path = before, .coefficient = 0.5}};
static const struct weights sum = {.kind = WEIGHTS_SUM, .n = 2, .parts = stored};

/* JSON round trip through text. */
static struct weights through_text(const struct weights *w)
{
    struct weights out;
    json_t *json = options_to_json(&weights_table, w), *again;
    char *text = json_dumps(json, JSON_COMPACT);
    OK_OR_FAIL(json_read_text("weights", text, strlen(text), &again, e));
    OK_OR_FAIL(options_from_json(&weights_table, again, &out, e));
    free(text);
    json_decref(json);
    json_decref(again);
    return out;
}

static void a_sum_is_that_of_its_parts(void **state)
{
    struct checkpoint_part parts[] = {{0.5, NULL}, {0.5, NULL}};
    struct checkpoint *c, *folder[2], *want;
    struct weights again = through_text(&sum);
    char hash[HASH_HEX];
    float got[2], expected[2];
    (void)state;
    for (int i = 0; i < 2; i++) {
        OK_OR_FAIL(checkpoint_open(stored[i].path, &folder[i], e));
        parts[i].checkpoint = folder[i];
    }
    OK_OR_FAIL(checkpoint_combine(parts, 2, &want, e));
    for (int i = 0; i < 2; i++) checkpoint_close(folder[i]);
    OK_OR_FAIL(weights_open(&again, NULL, &c, e));
    OK_OR_FAIL(weights_hash(&sum, hash, e));
    assert_string_equal(checkpoint_hash(c), checkpoint_hash(want));
    assert_string_equal(checkpoint_hash(c), hash);
    const struct tensor_entry *t = checkpoint_tensor(c, 0);
    OK_OR_FAIL(checkpoint_read_range(c, t, 0, 2, got, e));
    OK_OR_FAIL(checkpoint_read_range(want, checkpoint_tensor(want, 0), 0, 2, expected, e));
    assert_memory_equal(got, expected, sizeof got);
    checkpoint_close(c);
    checkpoint_close(want);
    options_free(&weights_table, &again);
}

static void recipes_name_stored_weights(void **state)
{
    char *text;
    struct weights quantized, again;
    (void)state;
    OK_OR_FAIL(weights_recipe(&stored[0], &text, e));
    assert_string_equal(text, "");
    free(text);
    OK_OR_FAIL(weights_recipe(&sum, &text, e));
    assert_string_equal(text,
                        "sum(0.5 step1200, 0.5 " CONFIGS "/quickstart/trajectory/step001100)");
    free(text);
    OK_OR_FAIL(weights_derive(WEIGHTS_QUANTIZED, &stored[0], &quantized, e));
    struct method_entry method = {.name = rtn, .method = rtn, .replicates = 1};
    options_default(&quant_table, &method.options);
    method.rotation_sequences = 1;
    OK_OR_FAIL(variant_copy(&method, 3, NULL, &quantized.variant, e));
    again = through_text(&quantized);
    OK_OR_FAIL(weights_recipe(&again, &text, e));
    assert_string_equal(text, "rtn 3(step1200)");
    assert_string_equal(weights_folder(&again), path);
    assert_true(weights_present(&again));
    struct checkpoint *c = NULL;
    struct err err = {0};
    assert_int_equal(weights_open(&again, NULL, &c, &err), ERR_USAGE);
    assert_null(c);
    free(text);
    options_free(&weights_table, &quantized);
    options_free(&weights_table, &again);
}

static void recipes_of_averages(void **state)
{
    char *text;
    struct weights parts[] = {{.name = name, .path = path, .coefficient = 1},
                              {.name = rtn, .path = before, .coefficient = 1}};
    struct weights mean = {.kind = WEIGHTS_AVERAGE, .n = 2, .parts = parts};
    (void)state;
    OK_OR_FAIL(weights_recipe(&mean, &text, e));
    assert_string_equal(text, "average(step1200, rtn)");
    free(text);
    parts[1].coefficient = 2;
    mean.f32 = true;
    struct weights again = through_text(&mean);
    OK_OR_FAIL(weights_recipe(&again, &text, e));
    assert_string_equal(text, "average f32(1 step1200, 2 rtn)");
    free(text);
    assert_int_equal(weights_reads(&again), 2);
    assert_int_equal(weights_reads(&parts[0]), 1);
    options_free(&weights_table, &again);
}

/* The recipe of a greedy soup names all candidates; its digest is the same for any choice, and it
 * is read only when that is known. */
static void greedy_soups(void **state)
{
    (void)state;
    char *text, hash[HASH_HEX], identity[] = "0123", file[] = "heldout.txt";
    struct weights parts[] = {{.name = name, .path = path, .coefficient = 1},
                              {.name = rtn, .path = before, .coefficient = 1}};
    struct weights soup = {.kind = WEIGHTS_GREEDY, .n = 2, .parts = parts, .identity = identity};
    struct checkpoint *c = NULL;
    struct err err = {0};
    options_default(&data_heldout_table, &soup.heldout);
    soup.heldout.text = file;
    struct weights again = through_text(&soup);
    OK_OR_FAIL(weights_recipe(&again, &text, e));
    assert_string_equal(text, "greedy(step1200, rtn; text 0123)");
    free(text);
    assert_int_equal(weights_reads(&again), 2);
    assert_int_equal(weights_open(&again, NULL, &c, &err), ERR_USAGE);
    OK_OR_FAIL(weights_hash(&again, hash, e));
    static const struct {
        const char *members;
        double coefficient[2];
        int reads;
    } choices[] = {{"{'soup_members': 'rtn, step1200'}", {1, 1}, 2},
                   {"{'soup_members': 'rtn'}", {0, 1}, 1},
                   {"{'soup_members': 'step1200, other'}", {1, 1}, 0},
                   {"{}", {1, 1}, 0}};
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) {
        struct weights one = through_text(&soup);
        char json[80];
        snprintf(json, sizeof json, "%s", choices[i].members);
        for (char *p = json; *p; p++) *p = *p == '\'' ? '"' : *p;
        json_t *record = json_loads(json, 0, NULL);
        weights_recall_choice(&one, record);
        assert_true(one.chosen == (choices[i].reads > 0));
        for (int k = 0; k < 2; k++)
            assert_true(one.parts[k].coefficient == choices[i].coefficient[k]);
        if (one.chosen) {
            assert_int_equal(weights_reads(&one), choices[i].reads);
            OK_OR_FAIL(weights_open(&one, NULL, &c, e));
            assert_string_equal(checkpoint_hash(c), hash);
            checkpoint_close(c);
        }
        json_decref(record);
        options_free(&weights_table, &one);
    }
    options_free(&weights_table, &again);
}

static void random_directions_keep_their_stream(void **state)
{
    char hash[2][HASH_HEX];
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct weights w, again;
        OK_OR_FAIL(weights_derive(WEIGHTS_RANDOM, &stored[0], &w, e));
        w.stream = UINT64_C(0xfedcba9876543210) + (uint64_t)i;
        again = through_text(&w);
        assert_true(again.stream == w.stream);
        OK_OR_FAIL(weights_hash(&again, hash[i], e));
        options_free(&weights_table, &w);
        options_free(&weights_table, &again);
    }
    assert_string_not_equal(hash[0], hash[1]);
}

static void malformed(const char *text)
{
    struct weights w = {0};
    struct err err = {0};
    json_t *json;
    OK_OR_FAIL(json_read_text("weights", text, strlen(text), &json, e));
    assert_int_equal(options_from_json(&weights_table, json, &w, &err), ERR_FORMAT);
    json_decref(json);
}

static void malformed_ones_are_refused(void **state)
{
    (void)state;
    malformed("{\"kind\":\"borrowed\",\"path\":\"x\"}");
    malformed("{\"kind\":\"stored\"}");
    malformed("{\"kind\":\"sum\",\"parts\":[]}");
    malformed("{\"kind\":\"sum\",\"parts\":[{\"kind\":\"stored\",\"path\":\"x\"}]}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sum_is_that_of_its_parts),
        cmocka_unit_test(recipes_name_stored_weights),
        cmocka_unit_test(recipes_of_averages),
        cmocka_unit_test(greedy_soups),
        cmocka_unit_test(random_directions_keep_their_stream),
        cmocka_unit_test(malformed_ones_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

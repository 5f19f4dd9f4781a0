/* Texts of records: completions of what another record of the key has, and records of earlier
 * versions under the keys of now. */
#include "records/complete.h"
#include "records/scores.h"
#include "records/view.h"
#include "sample.h"
#include "scratch.h"

/* Texts of 32 digits, of which the first says which one it is. */
#define TEXT(c) c "0000000000000000000000000000000"
#define CELL(key, of, datasets, texts)                                                             \
    "{\"type\":\"" of "\",\"key\":\"" key "\",\"fingerprint\":\"f\",\"status\":\"done\","          \
    "\"message\":\"said\",\"values\":{\"seconds\":1},\"datasets\":{" datasets "},"                 \
    "\"provenance\":{\"weights_hash\":\"w\"" texts "}}"
#define NOTE(c) ",\"text " TEXT(c) "\":{\"name\":\"label " c "\"}"
#define LOSS(c) "\"" TEXT(c) "\":{\"loss\":" c "}"

static void check_loss(const json_t *record, const char *text, double loss)
{
    const json_t *one = json_object_get(json_object_get(record, "datasets"), text);
    assert_true(json_number_value(json_object_get(one, "loss")) == loss);
}

static void texts_of_another_record_complete_it(void **state)
{
    (void)state;
    json_t *a = sample_parse(CELL("k", "cell", LOSS("1") "," LOSS("2"), NOTE("1") NOTE("2")));
    json_t *b = sample_parse(CELL("k", "cell", LOSS("2") "," LOSS("3"), NOTE("2") NOTE("3")));
    json_t *more, *whole, *none;
    assert_int_equal(scores_state(a, TEXT("1")), STATE_DONE);
    assert_int_equal(scores_state(a, TEXT("3")), STATE_PENDING);
    assert_int_equal(scores_completion(a, b, &more, NULL), OK);
    assert_int_equal(json_object_size(json_object_get(more, "datasets")), 1);
    assert_true(completion_fits(a, more) && completion_adds(a, more));
    assert_int_equal(completion_join(a, more, &whole, NULL), OK);
    for (int i = 1; i <= 3; i++) {
        char text[HASH_HEX] = TEXT("0");
        text[0] = (char)('0' + i);
        assert_int_equal(scores_state(whole, text), STATE_DONE);
        check_loss(whole, text, i);
    }
    assert_string_equal(json_text(whole, "message", ""), "said");
    assert_false(completion_adds(whole, more));
    assert_int_equal(scores_completion(whole, b, &none, NULL), OK);
    assert_null(none);
    /* Times are those of the texts that were there first. */
    static const char both[2][HASH_HEX] = {TEXT("2"), TEXT("1")};
    assert_true(scores_are(a, both, 2) && scores_are(whole, both, 2) && !scores_are(a, both, 1));
    /* Of other weights it says nothing. */
    json_object_set_new(json_object_get(b, "provenance"), "weights_hash", json_string("other"));
    assert_int_equal(scores_completion(a, b, &none, NULL), OK);
    assert_null(none);
    json_decref(a);
    json_decref(b);
    json_decref(more);
    json_decref(whole);
}

static void what_failed_may_be_scored_later(void **state)
{
    (void)state;
    json_t *a = sample_parse(CELL("k", "cell", LOSS("1"), NOTE("1")));
    json_t *b = sample_parse(CELL("k", "cell", LOSS("3"), NOTE("3"))), *more;
    scores_note(json_object_get(a, "provenance"), TEXT("3"), "c", true, "too short", "stamp");
    assert_int_equal(scores_state(a, TEXT("3")), STATE_FAILED);
    assert_string_equal(json_text(scores_find(a, TEXT("3")), "inputs", ""), "stamp");
    assert_int_equal(scores_completion(a, b, &more, NULL), OK);
    assert_true(completion_adds(a, more));
    json_decref(a);
    json_decref(b);
    json_decref(more);
}

/* A plan whose checkpoint had the key "old" when it was scored on the text "label 1". */
static json_t *plan_of_now(const char *cell, char now[HASH_HEX])
{
    json_t *plan = sample_plan();
    json_t *model = json_array_get(json_object_get(plan, "models"), 0);
    json_t *checkpoint = json_array_get(json_object_get(model, "checkpoints"), 0);
    json_object_set_new(checkpoint, "former", json_pack("{s:{s:s}}", "old", "label 1", TEXT("1")));
    results_cell_key(json_text(checkpoint, "key", ""), cell, now);
    return plan;
}

static void earlier_records_have_the_keys_of_now(void **state)
{
    (void)state;
    for (int plan_first = 0; plan_first < 2; plan_first++) {
        char old[HASH_HEX], now[HASH_HEX];
        struct results_view *v;
        json_t *plan = plan_of_now(sample_variant_keys[0], now);
        json_t *cell = sample_parse(CELL("k", "cell", "\"label 1\":{\"loss\":1}", ""));
        json_t *completion = sample_parse(
            "{\"type\":\"completion\",\"fingerprint\":\"f\",\"message\":\"more\",\"values\":{},"
            "\"completes\":{\"second_order\":\"id\"},\"provenance\":{\"weights_hash\":\"w\"}}");
        results_cell_key("old", sample_variant_keys[0], old);
        json_object_set_new(cell, "key", json_string(old));
        json_object_set_new(completion, "key", json_string(old));
        assert_int_equal(view_new(&v, NULL), OK);
        if (plan_first) assert_int_equal(view_add(v, plan, NULL), OK);
        assert_int_equal(view_add(v, cell, NULL), OK);
        assert_int_equal(view_add(v, completion, NULL), OK);
        if (!plan_first) assert_int_equal(view_add(v, plan, NULL), OK);
        const json_t *r = results_view_find(v, now);
        assert_non_null(r);
        assert_null(results_view_find(v, old));
        check_loss(r, TEXT("1"), 1);
        assert_int_equal(scores_state(r, TEXT("1")), STATE_DONE);
        assert_string_equal(json_text(scores_find(r, TEXT("1")), "name", ""), "label 1");
        assert_string_equal(json_text(json_object_get(r, "provenance"), "second_order", ""), "id");
        assert_non_null(json_object_get(json_object_get(cell, "datasets"), "label 1"));
        json_decref(plan);
        json_decref(cell);
        json_decref(completion);
        results_view_close(v);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_of_another_record_complete_it),
        cmocka_unit_test(what_failed_may_be_scored_later),
        cmocka_unit_test(earlier_records_have_the_keys_of_now),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* A view joins records with what completes them: by key, for records that are done and of the same
 * weights; a record that comes later starts without. */
#include "results/view.h"
#include "sample.h"

static void add(struct results_view *v, const char *text)
{
    json_t *record = sample_parse(text);
    assert_int_equal(view_add(v, record, NULL), OK);
    json_decref(record);
}

static const char *const cell =
    "{\"type\":\"cell\",\"key\":\"k\",\"fingerprint\":\"f\",\"status\":\"done\",\"message\":\"\","
    "\"values\":{\"seconds\":1,\"peak_memory\":5},"
    "\"layers\":[{\"name\":\"a\",\"error\":1},{\"name\":\"b\",\"error\":2}],"
    "\"provenance\":{\"host\":\"h\",\"weights_hash\":\"w\"}}";
static const char *const completion =
    "{\"type\":\"completion\",\"key\":\"k\",\"fingerprint\":\"f\",\"message\":\"said\","
    "\"values\":{\"second_order\":0.5,\"peak_memory\":6},\"layers\":{\"b\":{\"first_order\":3}},"
    "\"completes\":{\"second_order\":\"id\"},"
    "\"provenance\":{\"host\":\"other\",\"weights_hash\":\"w\"}}";

static double value_of(const struct results_view *v, const char *name)
{
    const json_t *values = json_object_get(results_view_find(v, "k"), "values");
    return json_number_value(json_object_get(values, name));
}

static void joins(void **state)
{
    (void)state;
    struct results_view *v;
    assert_int_equal(view_new(&v, NULL), OK);
    json_t *first = sample_parse(cell), *kept = json_deep_copy(first);
    assert_int_equal(view_add(v, first, NULL), OK);
    add(v, completion);
    assert_true(json_equal(first, kept)); /* a journal's record is not touched */
    const json_t *r = results_view_find(v, "k"), *layers = json_object_get(r, "layers");
    assert_true(value_of(v, "seconds") == 1 && value_of(v, "peak_memory") == 6);
    assert_true(value_of(v, "second_order") == 0.5);
    assert_string_equal(json_text(r, "message", ""), "said");
    assert_string_equal(json_text(r, "fingerprint", ""), "f");
    assert_string_equal(json_text(json_object_get(r, "provenance"), "host", ""), "h");
    assert_string_equal(json_text(json_object_get(r, "provenance"), "second_order", ""), "id");
    assert_null(json_object_get(json_array_get(layers, 0), "first_order"));
    const json_t *b = json_array_get(layers, 1);
    assert_true(json_number_value(json_object_get(b, "error")) == 2);
    assert_true(json_number_value(json_object_get(b, "first_order")) == 3);
    add(v, cell);
    assert_true(value_of(v, "second_order") == 0);
    json_decref(first);
    json_decref(kept);
    results_view_close(v);
}

/* The record's line was damaged, it failed, or the weights have changed since. */
static void leaves_alone(void **state)
{
    (void)state;
    struct results_view *v;
    assert_int_equal(view_new(&v, NULL), OK);
    add(v, completion);
    assert_null(results_view_find(v, "k"));
    add(v, "{\"type\":\"cell\",\"key\":\"k\",\"status\":\"failed\","
           "\"provenance\":{\"weights_hash\":\"w\"}}");
    add(v, completion);
    assert_true(value_of(v, "second_order") == 0);
    add(v, "{\"type\":\"cell\",\"key\":\"k\",\"status\":\"done\",\"values\":{},"
           "\"provenance\":{\"weights_hash\":\"x\"}}");
    add(v, completion);
    assert_true(value_of(v, "second_order") == 0);
    results_view_close(v);
}

/* What was completed elsewhere says so. */
static void names_both(void **state)
{
    (void)state;
    struct results_view *v;
    char *other = strdup(completion);
    assert_int_equal(view_new(&v, NULL), OK);
    strstr(other, "\"fingerprint\":\"f\"")[15] = 'g';
    add(v, cell);
    add(v, other);
    assert_string_equal(json_text(results_view_find(v, "k"), "fingerprint", ""),
                        "f; completed by g");
    free(other);
    results_view_close(v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(joins),
        cmocka_unit_test(leaves_alone),
        cmocka_unit_test(names_both),
    };
    return cmocka_run_group_tests_name("view", tests, NULL, NULL);
}

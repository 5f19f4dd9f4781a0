/* A view joins records with what completes them: by key, for records that are done and of the same
 * weights; a record that comes later starts without. */
#include "records/view.h"
#include "records/weights_read.h"
#include "sample.h"
#include "scratch.h"

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

static void later_records_complete_earlier_ones(void **state)
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

/* A record of that key that was made from weights with that digest; at: seconds of its time. */
static void add_read(struct results_view *v, const char *key, const char *name, const char *digest,
                     int at)
{
    char text[400];
    snprintf(text, sizeof text,
             "{\"type\":\"cell\",\"key\":\"%s\",\"status\":\"done\",\"values\":{},"
             "\"provenance\":{\"utc_end\":\"2026-01-02T03:04:%02dZ\",\"weights_hash\":\"w\","
             "\"weights_read\":{\"%s\":\"%s\"}}}",
             key, at, name, digest);
    add(v, text);
}

/* The newest weights of a checkpoint count; a record that does not say which it is of stays. */
static void never_mixes_weights(void **state)
{
    (void)state;
    struct results_view *v;
    assert_int_equal(view_new(&v, NULL), OK);
    add(v, cell);
    add_read(v, "a", "m/s1", "old", 1);
    add_read(v, "b", "m/s1", "old", 2);
    add_read(v, "c", "m/s2", "old", 3);
    assert_int_equal(json_object_size(v->stale), 0);
    add_read(v, "b", "m/s1", "new", 1); /* a clock that is late does not matter */
    assert_null(results_view_find(v, "a"));
    assert_non_null(results_view_find(v, "b"));
    assert_non_null(results_view_find(v, "c"));
    assert_non_null(results_view_find(v, "k"));
    assert_int_equal(json_object_size(v->stale), 1);
    add_read(v, "a", "m/s1", "new", 4);
    assert_int_equal(json_object_size(v->stale), 0);
    assert_non_null(results_view_find(v, "a"));
    results_view_close(v);
}

/* Between journals the time decides, then any fixed order. */
static void the_newest_weights_of_many_journals(void **state)
{
    static const struct {
        const char *digest, *utc;
    } of[] = {{"a", "2026-01-02T03:04:05Z"},
              {"b", "2026-01-02T03:04:07Z"},
              {"c", "2026-01-02T03:04:07Z"}};
    (void)state;
    for (int order = 0; order < 6; order++) {
        json_t *newest = json_object();
        int left = 0;
        for (int pass = 0; pass < 2; pass++)
            for (int i = 0; i < 3; i++) {
                const int k = order < 3 ? (order + i) % 3 : (order - i + 3) % 3;
                json_t *r = json_pack("{s:{s:s, s:{s:s}}}", "provenance", "utc_end", of[k].utc,
                                      "weights_read", "m/s", of[k].digest);
                json_t *own = json_object();
                weights_read_learn(own, r);
                if (pass == 0)
                    weights_read_join(newest, own);
                else if (weights_read_agree(newest, r))
                    left = k;
                json_decref(own);
                json_decref(r);
            }
        assert_int_equal(left, 2);
        json_decref(newest);
    }
}

/* A record as above. */
static json_t *read_record(const char *key, const char *digest, int at)
{
    return json_pack("{s:s, s:s, s:s, s:{}, s:{s:o, s:s, s:{s:s}}}", "type", "cell", "key", key,
                     "status", "done", "values", "provenance", "utc_end",
                     json_sprintf("2026-01-02T03:04:%02dZ", at), "weights_hash", "w",
                     "weights_read", "m/s1", digest);
}

/* Of "KEY DIGEST SECONDS" entries a journal, which is added to the view. */
static void add_journal(struct results_view *v, const char *entries)
{
    char key[8], digest[8];
    int at, used;
    struct journal *j;
    json_t *late = json_array();
    const char *path = scratch_path("elsewhere.journal");
    unlink(path);
    assert_int_equal(journal_open(path, &j, NULL), OK);
    for (; sscanf(entries, "%7s %7s %d%n", key, digest, &at, &used) == 3; entries += used) {
        json_t *r = read_record(key, digest, at);
        assert_int_equal(journal_append(j, r, NULL), OK);
        json_decref(r);
    }
    assert_int_equal(view_add_elsewhere(v, j, VIEW_STATES, NULL, late, NULL), OK);
    assert_int_equal(view_add_late(v, NULL, late, NULL), OK);
    json_decref(late);
    journal_close(j);
}

/* What a view has of the keys a to d: the first letters of the digests of weights. */
static void assert_holds(const struct results_view *v, const char *expected)
{
    static const char *const keys[] = {"a", "b", "c", "d"};
    char found[5] = "";
    for (int i = 0; i < 4; i++) {
        const json_t *r = results_view_find(v, keys[i]);
        const json_t *of = json_object_get(json_object_get(r, "provenance"), "weights_read");
        found[i] = r ? json_text(of, "m/s1", "?")[0] : '-';
    }
    assert_string_equal(found, expected);
}

/* Nor does one of many journals, whichever is read first. */
static void never_mixes_weights_of_journals(void **state)
{
    (void)state;
    static const struct {
        const char *journals[3], *holds;
    } cases[] = {
        {{"a old 1 b old 2", "c new 5"}, "--n-"},
        {{"c new 5", "a old 1 b old 2"}, "--n-"},
        {{"a old 1 b old 2", "a new 5 c new 6"}, "n-n-"},
        {{"a old 1", "b new 5", "a new 6"}, "nn--"},
        {{"a old 1 b old 2 b new 3"}, "-n--"}, /* in one journal the order of its lines decides, */
        {{"a old 9 b old 9 b new 3"}, "-n--"}, /* whatever its clock said */
        {{"a new 1 b new 9", "c old 5"}, "nn--"}, /* and the last of each counts between them */
        {{"c old 5", "a new 1 b new 9"}, "nn--"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct results_view *v;
        assert_int_equal(view_new(&v, NULL), OK);
        for (int k = 0; k < 3 && cases[i].journals[k]; k++) add_journal(v, cases[i].journals[k]);
        assert_holds(v, cases[i].holds);
        results_view_close(v);
    }
}

/* Its own records, too, are left out for newer ones elsewhere. */
static void leaves_own_records_out(void **state)
{
    (void)state;
    struct results_view *v;
    assert_int_equal(view_new(&v, NULL), OK);
    add_read(v, "a", "m/s1", "old", 1);
    add_read(v, "b", "m/s1", "old", 2);
    add_journal(v, "b new 5 c new 6");
    assert_holds(v, "-nn-");
    assert_int_equal(json_object_size(v->stale), 1);
    results_view_close(v);
}

/* A plan that finds weights on disk again has their results count, as whole as they were, and those
 * of the others wait for theirs. */
static void takes_weights_back(void **state)
{
    (void)state;
    struct results_view *v;
    assert_int_equal(view_new(&v, NULL), OK);
    add_read(v, "a", "m/s1", "old", 1);
    add(v, "{\"type\":\"completion\",\"key\":\"a\",\"completes\":{\"second_order\":\"id\"},"
           "\"provenance\":{\"weights_hash\":\"w\"}}");
    add_read(v, "b", "m/s1", "old", 2);
    add_read(v, "c", "m/s1", "new", 3);
    add_read(v, "a", "m/s1", "new", 4);
    assert_holds(v, "n-n-");
    assert_non_null(results_view_other(v, "b", "w"));
    assert_null(results_view_other(v, "b", "x"));
    for (int back = 0; back < 3; back++) {
        static const char *const plan =
            "{\"type\":\"plan\",\"utc\":\"2026-01-02T03:05:00Z\",\"models\":[],\"provenance\":"
            "{\"weights_read\":{\"m/s1\":\"%s\"}}}";
        char text[200];
        snprintf(text, sizeof text, plan, back % 2 ? "new" : "old");
        add(v, text);
        assert_holds(v, back % 2 ? "n-n-" : "oo--");
        const json_t *from = json_object_get(results_view_find(v, "a"), "provenance");
        assert_string_equal(json_text(from, "second_order", ""), back % 2 ? "" : "id");
        assert_int_equal(json_object_size(v->stale), 1);
    }
    add_read(v, "c", "m/s1", "old", 5);
    assert_holds(v, "ooo-");
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
        cmocka_unit_test(later_records_complete_earlier_ones),
        cmocka_unit_test(never_mixes_weights),
        cmocka_unit_test(the_newest_weights_of_many_journals),
        cmocka_unit_test(never_mixes_weights_of_journals),
        cmocka_unit_test(leaves_own_records_out),
        cmocka_unit_test(takes_weights_back),
        cmocka_unit_test(leaves_alone),
        cmocka_unit_test(names_both),
    };
    return cmocka_run_group_tests_name("view", tests, NULL, NULL);
}

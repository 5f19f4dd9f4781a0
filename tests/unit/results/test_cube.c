/* Records → journal → view → cube → view → cube: nothing is lost but the difference between NaN and
 * absent. */
#include "sample.h"
#include <hdf5.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

/* A record as a cube gives it back: without NaN and "", which a cube cannot tell from absent. */
static json_t *without_nan(const json_t *value)
{
    json_t *copy = json_deep_copy(value);
    const char *key, *dataset;
    void *next, *next_dataset;
    json_t *one, *numbers, *layer;
    size_t i;
    json_object_foreach_safe(json_object_get(copy, "values"), next, key,
                             one) if (json_is_string(one) &&
                                      strcmp(json_string_value(one), "nan") == 0)
        json_object_del(json_object_get(copy, "values"), key);
    json_object_foreach(json_object_get(copy, "datasets"), dataset, numbers)
        json_object_foreach_safe(numbers, next_dataset, key,
                                 one) if (json_is_string(one) &&
                                          strcmp(json_string_value(one), "nan") == 0)
            json_object_del(numbers, key);
    json_array_foreach(json_object_get(copy, "layers"), i, layer) json_object_foreach_safe(
        layer, next, key, one) if (json_is_string(one) && strcmp(json_string_value(one), "nan") ==
                                                              0) json_object_del(layer, key);
    return copy;
}

static void assert_json_equal(const json_t *a, const json_t *b)
{
    char *x = json_dumps(a, JSON_SORT_KEYS | JSON_INDENT(1) | JSON_ENCODE_ANY);
    char *y = json_dumps(b, JSON_SORT_KEYS | JSON_INDENT(1) | JSON_ENCODE_ANY);
    assert_string_equal(x, y);
    free(x);
    free(y);
}

static void check_record(const struct results_view *a, const struct results_view *b,
                         const char *key)
{
    const json_t *x = results_view_find(a, key), *y = results_view_find(b, key);
    if (!x) {
        assert_null(y);
        return;
    }
    assert_non_null(y);
    json_t *clean = without_nan(x);
    assert_json_equal(clean, y);
    json_decref(clean);
}

static void check_views(const struct results_view *a, const struct results_view *b)
{
    assert_json_equal(results_view_plan(a), results_view_plan(b));
    for (int c = 0; c < SAMPLE_CHECKPOINTS; c++) {
        check_record(a, b, sample_checkpoint_keys[c]);
        for (int v = 0; v < SAMPLE_VARIANTS; v++) {
            char key[HASH_HEX];
            results_cell_key(sample_checkpoint_keys[c], sample_variant_keys[v], key);
            check_record(a, b, key);
        }
    }
}

static void assert_same_bytes(const char *a, const char *b)
{
    char *x, *y;
    size_t n, m;
    assert_int_equal(fsx_read(a, 0, &x, &n, NULL), OK);
    assert_int_equal(fsx_read(b, 0, &y, &m, NULL), OK);
    assert_int_equal(n, m);
    assert_memory_equal(x, y, n);
    free(x);
    free(y);
}

static void round_trip(void **state)
{
    (void)state;
    char *folder = sample_folder();
    char *first = sample_path(folder, "a.h5"), *second = sample_path(folder, "b.h5");
    struct results_view *v = sample_view(folder, true), *back = NULL;
    struct err e = {0};
    if (cube_write(first, v, &e) != OK) fail_msg("%s%s", e.text, e.trail);
    if (results_view_open(first, &back, &e) != OK) fail_msg("%s%s", e.text, e.trail);
    check_views(v, back);
    assert_json_equal(results_view_end(v), results_view_end(back));
    assert_int_equal(cube_write(second, back, &e), OK);
    assert_same_bytes(first, second);
    assert_int_equal(cube_write(second, v, &e), OK);
    assert_same_bytes(first, second);
    results_view_close(v);
    results_view_close(back);
    free(first);
    free(second);
    sample_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip),
    };
    return cmocka_run_group_tests_name("cube", tests, NULL, NULL);
}

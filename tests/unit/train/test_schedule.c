/* Learning rates against those of plainLM, GPT-NeoX and epfml/schedules-and-scaling
 * (tests/fixtures/train/schedules.json), and against the formulas of docs/math/training.md. */
#include "train/schedule.h"
#include "util/json.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static double number(const json_t *o, const char *key)
{
    return json_number_value(json_object_get(o, key));
}

static int word_of(const char *text, const char *const *words, int otherwise)
{
    for (int i = 0; text && words[i]; i++)
        if (strcmp(text, words[i]) == 0) return i;
    return otherwise;
}

static struct schedule of_json(const json_t *o)
{
    static const char *const kinds[] = {"wsd", "cosine", "neox_cosine", "linear", NULL};
    static const char *const shapes[] = {"linear", "1-sqrt", NULL};
    struct schedule s = {.kind = word_of(json_string_value(json_object_get(o, "kind")), kinds, -1),
                         .shape =
                             word_of(json_string_value(json_object_get(o, "shape")), shapes, 0),
                         .peak = number(o, "lr_max"),
                         .start = number(o, "lr_start"),
                         .end = number(o, "lr_end") + number(o, "lr_min"),
                         .warmup_steps = (int64_t)number(o, "warmup"),
                         .decay_steps = (int64_t)number(o, "cooldown"),
                         .decay_from = (int64_t)number(o, "cooldown_start"),
                         .total = (int64_t)number(o, "total")};
    assert_true(s.kind >= 0);
    return s;
}

static void test_references(void **state)
{
    json_error_t why;
    size_t i, k;
    json_t *one, *t, *file = json_load_file(FIXTURES "/train/schedules.json", 0, &why);
    (void)state;
    assert_non_null(file);
    assert_true(json_array_size(json_object_get(file, "schedules")) > 10);
    json_array_foreach(json_object_get(file, "schedules"), i, one) {
        const struct schedule s = of_json(one);
        json_array_foreach(json_object_get(one, "t"), k, t) {
            const double expected =
                json_number_value(json_array_get(json_object_get(one, "lr"), k));
            const double found = schedule_rate(&s, json_integer_value(t));
            if (!(fabs(found - expected) <= 1e-12 * s.peak))
                fail_msg("%s, t = %lld: %.17g, expected %.17g",
                         json_string_value(json_object_get(one, "name")),
                         (long long)json_integer_value(t), found, expected);
        }
    }
    json_decref(file);
}

static void test_other_kinds(void **state)
{
    (void)state;
    struct schedule s = {.kind = SCHEDULE_INVERSE_SQRT, .peak = 2, .warmup_steps = 4, .total = 100};
    assert_float_equal(schedule_rate(&s, 2), 1, 1e-15);
    assert_float_equal(schedule_rate(&s, 16), 1, 1e-15);
    s = (struct schedule){
        .kind = SCHEDULE_PIECEWISE, .n_at = 2, .n_rates = 2, .at = {10, 20}, .rates = {1, 3}};
    assert_float_equal(schedule_rate(&s, 0), 1, 0);
    assert_float_equal(schedule_rate(&s, 15), 2, 1e-15);
    assert_float_equal(schedule_rate(&s, 99), 3, 0);
    s = (struct schedule){.kind = SCHEDULE_WSD,
                          .shape = SHAPE_COSINE,
                          .peak = 4,
                          .decay_from = 10,
                          .decay_steps = 10,
                          .total = 20};
    assert_float_equal(schedule_rate(&s, 10), 4, 0);
    assert_float_equal(schedule_rate(&s, 15), 2, 1e-15);
    assert_float_equal(schedule_rate(&s, 20), 0, 1e-15);
}

/* A share of the budget is cut off, a branch's decay begins at its step, and "after" is a step
 * ahead. */
static void test_resolving(void **state)
{
    struct err e = {0};
    (void)state;
    struct schedule s = {
        .kind = SCHEDULE_WSD, .peak = 1, .warmup = (char *)"1%", .decay = (char *)"3500"};
    assert_int_equal(schedule_resolve(&s, 0, 18550, &e), OK);
    assert_int_equal(s.warmup_steps, 185);
    assert_int_equal(s.decay_from, 15050);
    assert_string_equal(schedule_phase(&s, 184), "warmup");
    assert_string_equal(schedule_phase(&s, 15050), "stable");
    assert_string_equal(schedule_phase(&s, 15051), "decay");
    assert_float_equal(schedule_rate_of_step(&s, 1), 0, 0);
    s.rate_of_step = RATE_AFTER;
    assert_float_equal(schedule_rate_of_step(&s, 185), 1, 0);
    s = (struct schedule){.kind = SCHEDULE_DECAY, .peak = 1};
    assert_int_equal(schedule_resolve(&s, 100, 10, &e), OK);
    assert_float_equal(schedule_rate_of_step(&s, 101), 1, 0);
    assert_float_equal(schedule_rate_of_step(&s, 102), 0.9, 1e-15);
    s = (struct schedule){.kind = SCHEDULE_WSD, .warmup = (char *)"90%", .decay = (char *)"20%"};
    assert_int_equal(schedule_resolve(&s, 0, 100, &e), ERR_USAGE);
    s = (struct schedule){.kind = SCHEDULE_WSD, .warmup = (char *)"1.5"};
    err_clear(&e);
    assert_int_equal(schedule_resolve(&s, 0, 100, &e), ERR_USAGE);
    json_t *back = json_pack("{s:s, s:[i, i], s:[f, f]}", "kind", "piecewise", "at", 20, 10,
                             "rates", 1.0, 3.0);
    err_clear(&e);
    assert_int_equal(options_from_json(&schedule_table, back, &s, &e), ERR_FORMAT);
    if (!strstr(e.text, "expected steps that grow")) fail_msg("%s", e.text);
    json_decref(back);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_references),
        cmocka_unit_test(test_other_kinds),
        cmocka_unit_test(test_resolving),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Presets: what they set, what overrides them, what contradicts them. */
#include "config/preset.h"
#include "quant/awq.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char file[] = FIXTURES "/config/preset.yaml";

static void read_ok(const char *const *set, int64_t n, struct sweep *s)
{
    struct err e = {0};
    if (sweep_read(file, set, n, s, &e) != OK) fail_msg("%s", e.text);
}

static void refuse(const char *const *set, int64_t n, const char *part)
{
    struct sweep s;
    struct err e = {0};
    assert_int_equal(sweep_read(file, set, n, &s, &e), ERR_USAGE);
    if (!strstr(e.text, part)) fail_msg("\"%s\" lacks \"%s\"", e.text, part);
}

static void what_is_written_wins_over_the_preset(void **state)
{
    (void)state;
    struct sweep s;
    read_ok(NULL, 0, &s);
    const struct quant_options *q = &s.methods[0].options;
    assert_int_equal(s.methods[0].preset, PRESET_GPTQMODEL_4);
    assert_int_equal(q->group_size, 64); /* written beside the preset */
    assert_int_equal(q->order, ORDER_ACTIVATION);
    assert_true(q->damping == 0.05 && q->damping_increment == 0.01 && q->range_search == 0);
    assert_true(q->symmetric && q->true_sequential && q->hessian_per_token && !q->static_groups);
    assert_int_equal(q->scale_dtype, SCALE_F16_PACKED);
    assert_int_equal(q->last_resort, RESORT_ROUND);
    assert_int_equal(s.methods[1].preset, PRESET_NONE);
    assert_int_equal(s.methods[1].options.order, ORDER_NONE);
    assert_int_equal(s.methods[1].options.scale_dtype, SCALE_F32);
    assert_int_equal(s.methods[2].options.scale_dtype, SCALE_F16);
    assert_int_equal(s.methods[2].options.order, ORDER_NONE);
    assert_false(s.methods[2].options.symmetric);
    const struct data_options *d = &s.calibration;
    assert_int_equal(d->layout, LAYOUT_DOCUMENT);
    assert_int_equal(d->length, 0);
    assert_int_equal(d->min_length, 20);
    assert_int_equal(d->documents, 1024);
    assert_int_equal(d->batch, 16);
    assert_int_equal(d->padding, PADDING_COUNTED);
    assert_int_equal(d->sort, SORT_NONE);
    assert_int_equal(d->pad_id, -1);
    assert_true(d->special_tokens && !d->within_positions);
    assert_int_equal(s.evaluations[0].follow, 2);
    assert_int_equal(s.evaluations[0].length, 2048);
    assert_int_equal(s.evaluations[0].padding, PADDING_NONE);
    assert_int_equal(s.evaluations[1].follow, 0);
    assert_int_equal(s.evaluations[2].follow, 0); /* stored ids are not blocks of a text */
    sweep_free(&s);
}

static void each_preset_sets_its_values(void **state)
{
    (void)state;
    struct sweep s;
    const char *set[] = {"preset=gptqmodel-5", "methods[0].group_size=null"};
    read_ok(set, 2, &s);
    assert_int_equal(s.methods[0].options.group_size, 128);
    assert_int_equal(s.methods[0].options.order, ORDER_GROUP);
    assert_int_equal(s.methods[0].options.last_resort, RESORT_FLOOR);
    assert_int_equal(s.calibration.padding, PADDING_MASKED);
    assert_int_equal(s.calibration.sort, SORT_LENGTH);
    assert_true(s.calibration.within_positions);
    sweep_free(&s);
    set[0] = "preset=gptq-reference";
    set[1] = "methods[0].symmetric=true";
    read_ok(set, 2, &s);
    assert_true(s.methods[0].options.symmetric && s.methods[0].options.damping == 0.01);
    assert_false(s.methods[0].options.true_sequential);
    assert_int_equal(s.methods[0].options.group_size, 64);
    assert_int_equal(s.calibration.samples, 128);
    assert_int_equal(s.calibration.length, 2048);
    assert_int_equal(s.evaluations[0].follow, 0);
    sweep_free(&s);
    const char *of_transformers[] = {"preset=transformers-gptq", "methods[0].group_size=null",
                                     "calibration.min_length=null"};
    read_ok(of_transformers, 3, &s);
    const struct quant_options *q = &s.methods[0].options;
    assert_true(q->group_size == 128 && q->symmetric && q->damping == 0.1);
    assert_int_equal(q->order, ORDER_NONE);
    assert_int_equal(q->scale_dtype, SCALE_F16_PACKED);
    assert_int_equal(s.calibration.layout, LAYOUT_PACKED);
    assert_int_equal(s.calibration.samples, 128);
    assert_int_equal(s.evaluations[0].length, LENGTH_AUTO); /* not known */
    sweep_free(&s);
}

static void the_preset_of_awq(void **state)
{
    (void)state;
    const char *set[] = {"preset=llm-compressor-awq",
                         "methods=[{method: awq}, {method: awq, name: clipped, clip: true}]"};
    struct sweep s;
    read_ok(set, 2, &s);
    const struct quant_options *q = &s.methods[0].options;
    assert_true(s.methods[0].n_bits == 1 && s.methods[0].bits[0] == 4 && q->group_size == 128);
    assert_true(awq_options_of(q)->zero_point && awq_options_of(q)->duo_scaling &&
                !awq_options_of(q)->clip);
    assert_true(awq_options_of(&s.methods[1].options)->clip);
    assert_int_equal(s.calibration.samples, 256);
    assert_int_equal(s.calibration.length, 512);
    assert_int_equal(s.calibration.min_length, 20); /* written beside the preset */
    sweep_free(&s);
}

/* Presets of widths, for any method; what is written wins. */
static void presets_of_widths(void **state)
{
    (void)state;
    const char *set[] = {
        "preset=null", "calibration=null",
        "methods=[{method: rtn, preset: W4A8}, {method: hqq, preset: W4A4}, {method: rtn, "
        "name: eight, preset: W8A8}, {method: none, preset: W16A16KV4}, {method: rtn, name: own, "
        "preset: W4A4, "
        "activations: {bits: 6}, bits: [3]}]"};
    static const int64_t bits[] = {4, 4, 8, 16, 3}, inputs[] = {8, 4, 8, 16, 6};
    struct sweep s;
    struct err e = {0};
    if (sweep_read(file, set, 3, &s, &e) != OK) fail_msg("%s", e.text);
    for (int i = 0; i < 5; i++) {
        const struct method_entry *m = &s.methods[i];
        assert_true(m->n_bits == 1 && m->bits[0] == bits[i] && m->grids.inputs.bits == inputs[i]);
        assert_int_equal(m->grids.keys.bits, i == 3 ? 4 : 16);
        assert_true(m->grids.inputs.clip == (i == 1 ? 0.9 : 1));
    }
    assert_string_equal(s.methods[3].name, "none-kv4");
    sweep_free(&s);
}

static void contradicting_presets_are_refused(void **state)
{
    (void)state;
    struct sweep s;
    const char *set[3] = {"methods[1].preset=gptqmodel-5"};
    refuse(set, 1,
           "--set methods[1].preset=gptqmodel-5: methods[1].preset: gptqmodel-5 fixes the "
           "calibration too, but calibration has the preset gptqmodel-4");
    set[1] = "calibration.preset=none"; /* preset: none accepts the keys as written */
    read_ok(set, 2, &s);
    assert_int_equal(s.methods[0].options.order, ORDER_ACTIVATION);
    assert_int_equal(s.methods[1].options.order, ORDER_GROUP);
    assert_int_equal(s.calibration.padding, PADDING_NONE);
    assert_int_equal(s.calibration.length, LENGTH_AUTO);
    sweep_free(&s);
    set[0] = "preset=null"; /* a preset at the method alone does not set the calibration */
    set[1] = "methods[0].preset=gptqmodel-4";
    refuse(set, 2, "calibration has the preset none");
    set[2] = "calibration.preset=gptqmodel-4";
    read_ok(set, 3, &s);
    sweep_free(&s);
    set[0] = "methods[2].preset=gptqmodel-5"; /* needs no calibration */
    read_ok(set, 1, &s);
    sweep_free(&s);
    set[0] = "preset=gptqmodel-6";
    refuse(set, 1, "preset: expected one of none, gptq-reference, gptqmodel-4, gptqmodel-5");
    set[0] = "methods[0].preset=[x]";
    refuse(set, 1, "methods[0].preset: expected one of");
    set[0] = "evaluation[0].padding=counted";
    refuse(set, 1, "evaluation[0].padding: counted is for calibration");
    set[0] = "curvature={trace: 2, data: {text: x, padding: counted}}";
    refuse(set, 1, "curvature.data.padding: counted is for calibration");
    set[0] = "evaluation[2].follow=1";
    refuse(set, 1, "evaluation[2].follow: has no effect here: it goes with text");
    set[0] = "evaluation[1].follow=1";
    refuse(set, 1, "evaluation[1].follow: has no effect here: it goes with text");
}

/* Workers get the values, whatever preset set them. */
static void workers_get_the_values_of_presets(void **state)
{
    (void)state;
    struct sweep s;
    struct err e = {0};
    struct data_options d;
    struct method_entry m;
    read_ok(NULL, 0, &s);
    s.calibration.batch = 5;
    json_t *json = data_options_to_json(&s.calibration);
    assert_int_equal(options_from_json(&data_table, json, &d, &e), OK);
    assert_int_equal(d.batch, 5);
    assert_int_equal(d.min_length, 20);
    assert_int_equal(d.padding, PADDING_COUNTED);
    assert_int_equal(d.preset, PRESET_GPTQMODEL_4);
    options_free(&data_table, &d);
    json_decref(json);
    json = method_entry_to_json(&s.methods[0]);
    json_object_set_new(json, "damping", json_real(0.5));
    assert_int_equal(options_from_json(&method_table, json, &m, &e), OK);
    assert_true(m.options.damping == 0.5 && m.options.group_size == 64);
    options_free(&method_table, &m);
    json_decref(json);
    sweep_free(&s);
}

/* Every line of the presets is valid: known keys and values only. */
static void test_every_rule(void **state)
{
    (void)state;
    struct err e = {0};
    const char *const sections[] = {"calibration", "evaluation"};
    int n = 0;
    for (int i = 0; preset_names[i]; i++) {
        struct quant_options q;
        struct data_options d;
        assert_int_equal(preset_named(preset_names[i]), i);
        options_default(&quant_table, &q);
        const bool of_sweeps = strncmp(preset_names[i], "W", 1) == 0;
        const char *const methods[] = {"gptq", "rtn"};
        for (int k = 0; k < 2; k++) {
            const enum status expected = of_sweeps ? ERR_USAGE : OK;
            if (quant_options_preset(&q, i, methods[k], &e) != expected) fail_msg("%s", e.text);
            err_clear(&e);
        }
        assert_int_equal(preset_concerns(i, "gptq"),
                         i != PRESET_NONE && i != PRESET_LLM_COMPRESSOR_AWQ && !of_sweeps);
        for (int k = 0; k < 2; k++) {
            options_default(&data_table, &d);
            if (data_options_preset(&d, i, sections[k], &e) != OK) fail_msg("%s", e.text);
        }
        n++;
    }
    assert_int_equal(n, PRESET_N);
    assert_int_equal(preset_named("gptq"), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_wins_over_the_preset),
        cmocka_unit_test(each_preset_sets_its_values),
        cmocka_unit_test(the_preset_of_awq),
        cmocka_unit_test(presets_of_widths),
        cmocka_unit_test(contradicting_presets_are_refused),
        cmocka_unit_test(workers_get_the_values_of_presets),
        cmocka_unit_test(test_every_rule),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

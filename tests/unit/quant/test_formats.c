/* The option `codes` of rtn and gptq against numpy (tests/fixtures/formats/make.py). */
#include "fixture.h"
#include "layer.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

static struct fixture fixture;
static struct layer layer;

enum { STEP = 7 /* the fixture has each seventh row */ };

static struct quant_options plain_options(int64_t group_size)
{
    struct quant_options o = options_make(group_size);
    option_set(&o, "--trellis-window", "16"); /* its default */
    return o;
}

static struct quant_options options_of(const json_t *entry)
{
    struct quant_options o = plain_options(json_integer_value(json_object_get(entry, "group")));
    option_set(&o, "--codes", json_string_value(json_object_get(entry, "codes")));
    o.scale_rows = json_integer_value(json_object_get(entry, "rows"));
    o.block_size = 16; /* groups see the updates of all columns before them */
    return o;
}

/* Weights that differ by more than the last bits. */
static int64_t differences(const char *name, const char *method, const json_t *entry)
{
    const struct quant_method *m = quant_find(method);
    const struct quant_options o = options_of(entry);
    struct quant_report r;
    struct err e = {0};
    char key[64];
    float *q;
    int64_t bits, same, n = 0;
    quant_widths(m, &o, &bits, &same);
    assert_int_equal(bits, same);
    assert_int_equal(quant_check("gptq", &o, &bits, 1, &e), OK);
    if (layer_quantize(&layer, m, bits, &o, &q, &r, &e) != OK) fail_msg("%s: %s", name, e.text);
    snprintf(key, sizeof key, "%s.%s", name, method);
    const float *expected = fixture_get(&fixture, key).f;
    for (int64_t i = 0; i < layer.rows; i += STEP)
        for (int64_t j = 0; j < layer.cols; j++) {
            const float x = q[i * layer.cols + j], y = expected[i / STEP * layer.cols + j];
            n += fabsf(x - y) > 1e-6f * fabsf(y);
        }
    free(q);
    return n;
}

static void weights_are_those_of_numpy(void **state)
{
    (void)state;
    const char *name;
    json_t *entry;
    json_object_foreach(fixture.meta, name, entry) {
        const int64_t rounded = differences(name, "rtn", entry);
        if (rounded > 0) fail_msg("%s: %lld weights of rtn differ", name, (long long)rounded);
        /* f32 and f64 sums may decide a tie, and a row goes on from there. */
        const int64_t swept = differences(name, "gptq", entry);
        if (swept > layer.cols) fail_msg("%s: %lld weights of gptq differ", name, (long long)swept);
    }
}

/* The methods of these names are the same formats. */
static void formats_are_those_of_the_methods(void **state)
{
    (void)state;
    static const char *const names[] = {"mxfp4", "nvfp4"};
    for (int i = 0; i < 2; i++) {
        struct quant_options o = plain_options(i == 0 ? 32 : 16), plain = plain_options(128);
        struct quant_report a, b;
        struct err e = {0};
        float *p, *q;
        int64_t n = 0;
        option_set(&o, "--codes", names[i]);
        if (layer_quantize(&layer, quant_find("rtn"), 4, &o, &p, &a, &e) != OK ||
            layer_quantize(&layer, quant_find(names[i]), 4, &plain, &q, &b, &e) != OK)
            fail_msg("%s", e.text);
        for (int64_t k = 0; k < layer.rows * layer.cols; k++) n += fabsf(p[k] - q[k]) > 1e-6f;
        assert_true(n <= 2); /* x / s and x * (1 / s) at a tie */
        assert_float_equal(a.bits_per_weight, b.bits_per_weight, 1e-12);
        free(p), free(q);
    }
}

/* Options that do not go together. */
static void refused(const char *message, const char *codes, const char *flag, const char *value)
{
    struct quant_options o = plain_options(128);
    struct err e = {0};
    const int64_t bits[] = {1, 2, 4, 6, 8};
    option_set(&o, "--codes", codes);
    option_set(&o, flag, value);
    assert_int_equal(quant_check("gptq", &o, bits, 5, &e), ERR_USAGE);
    if (!strstr(e.text, message)) fail_msg("%s", e.text);
}

static void options_that_do_not_go_together_are_refused(void **state)
{
    (void)state;
    refused("say group_size: 32", "mxfp8_e4m3", "--group-size", "128");
    refused("say group_size: 16", "nvfp4", "--group-size", "32");
    refused("scale_rows: 65; expected", "ternary", "--scale-rows", "65");
    for (int i = 0; i < 3; i++)
        refused("expected 1 or, without range_search, a divisor of 64", "integer", "--scale-rows",
                (const char *const[]){"3", "128", "-1"}[i]);
    refused("leave out symmetric: false", "sign", "--asymmetric", NULL);
    refused("leave out symmetric: false", "fp8_e4m3", "--range-search", "2.4");
    struct quant_options o = plain_options(128);
    struct quant_grid_form form;
    struct err e = {0};
    const int64_t four = 4;
    o.scale_rows = 2;
    assert_int_equal(quant_check("rtn", &o, &four, 1, &e), OK);
    o.range_search = 2.4;
    assert_int_equal(quant_check("rtn", &o, &four, 1, &e), ERR_USAGE);
    o = plain_options(128);
    e = (struct err){0};
    option_set(&o, "--codes", "ternary");
    assert_int_equal(quant_grid_form_of(quant_find("gptq"), &o, &form, &e), ERR_USAGE);
    assert_non_null(strstr(e.text, "packed formats have integer codes"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_are_those_of_numpy),
        cmocka_unit_test(formats_are_those_of_the_methods),
        cmocka_unit_test(options_that_do_not_go_together_are_refused),
    };
    linalg_setup();
    if (!fixture_open(&fixture, FIXTURES "/formats", "formats")) return 1;
    const struct fixture_tensor w = fixture_get(&fixture, "W");
    static double gram[64 * 64];
    const double *h = fixture_get(&fixture, "H").data;
    layer = (struct layer){.rows = w.dim[0], .cols = w.dim[1], .w = (float *)(uintptr_t)w.f};
    memcpy(gram, h, sizeof gram);
    layer.gram = gram;
    layer.input = (struct quant_input){.cols = layer.cols, .samples = 1, .tokens = 300};
    layer.input.statistic[STATISTIC_GRAM] = gram;
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    fixture_close(&fixture);
    return failed;
}

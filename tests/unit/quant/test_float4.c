/* nf4, fp4, int8 and int8_weight against bitsandbytes, mxfp4 and nvfp4 against torchao
 * (tests/fixtures/float4). */
#include "coding/codes.h"
#include "fixture.h"
#include "layer.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

static const char *const layers[] = {"48x96", "32x128", "40x320"};

static struct fixture_tensor tensor(const struct fixture *f, const char *layer, const char *name)
{
    char key[64];
    snprintf(key, sizeof key, "%s.%s", layer, name);
    struct fixture_tensor t = fixture_get(f, key);
    assert_non_null(t.data);
    return t;
}

static float *quantize(const struct fixture *f, const char *layer, const char *method,
                       bool double_quant, struct layer *l, struct quant_report *r)
{
    const struct quant_method *m = quant_find(method);
    struct fixture_tensor w = tensor(f, layer, "W");
    struct quant_options o = options_make(128);
    struct err e = {0};
    float *q;
    o.double_quant = double_quant;
    *l = (struct layer){.rows = w.dim[0], .cols = w.dim[1], .w = (float *)(uintptr_t)w.f};
    if (layer_quantize(l, m, m->bits_max, &o, &q, r, &e) != OK) fail_msg("%s", e.text);
    return q;
}

static bool near(float a, float b, float tolerance)
{
    return fabsf(a - b) <= tolerance * fabsf(b);
}

/* Equal to the package but for the last bit. Two of the 336 magnitudes that double quantization
 * stores have the code beside the nearest (absmax.c). */
static void check_dequantized(const struct fixture *f, const char *method, bool nested, double bits)
{
    char name[64];
    snprintf(name, sizeof name, "%s%s.dequant", method, nested ? "_dq" : "");
    for (int i = 0; i < 3; i++) {
        struct layer l;
        struct quant_report r;
        float *q = quantize(f, layers[i], method, nested, &l, &r);
        struct fixture_tensor expected = tensor(f, layers[i], name);
        for (int64_t j = 0; j < l.rows * l.cols; j++)
            assert_true(near(q[j], expected.f[j], 0x1p-23f));
        assert_true(fabs(r.bits_per_weight - bits) < 0.02);
        free(q);
    }
}

static void weights_are_those_of_the_packages(void **state)
{
    (void)state;
    struct fixture f = {0};
    assert_true(fixture_open(&f, FIXTURES "/float4", "float4"));
    check_dequantized(&f, "nf4", false, 4.5);
    check_dequantized(&f, "fp4", false, 4.5);
    check_dequantized(&f, "mxfp4", false, 4.25);
    check_dequantized(&f, "nvfp4", false, 4.505);
    check_dequantized(&f, "nf4", true, 4.135);
    check_dequantized(&f, "fp4", true, 4.135);
    fixture_close(&f);
}

static void int8_weights_are_those_of_the_package(void **state)
{
    (void)state;
    struct fixture f = {0};
    assert_true(fixture_open(&f, FIXTURES "/float4", "float4"));
    for (int i = 0; i < 3; i++) {
        struct layer l;
        struct quant_report r;
        float *q = quantize(&f, layers[i], "int8_weight", false, &l, &r);
        const int8_t *codes = tensor(&f, layers[i], "int8.CB").data;
        const float *scale = tensor(&f, layers[i], "int8.SCB").f;
        for (int64_t j = 0; j < l.rows * l.cols; j++)
            assert_true(q[j] == (float)codes[j] * scale[j / l.cols] / 127);
        assert_float_equal(r.bits_per_weight, 8 + 32.0 / (double)l.cols, 1e-12);
        free(q);
    }
    fixture_close(&f);
}

/* y (tokens, rows) of the run-time linear for the inputs of that name. */
static float *apply(const struct fixture *f, const char *layer, const char *inputs,
                    double threshold)
{
    const struct quant_method *m = quant_find("int8");
    struct fixture_tensor w = tensor(f, layer, "W"), x = tensor(f, layer, inputs);
    struct quant_options o = options_make(128);
    struct err e = {0};
    void *linear;
    float *y;
    if (threshold != 6) memcpy(&o.own[METHOD_int8], &threshold, sizeof threshold);
    const struct quant_job job = {
        .bits = 8, .options = &o, .rows = w.dim[0], .cols = w.dim[1], .w = w.f};
    if (mem_zero(&y, x.dim[0] * job.rows, sizeof *y, "outputs", &e) != OK ||
        m->make_linear(&job, x.dim[0], &linear, &e) != OK)
        fail_msg("%s", e.text);
    for (int i = 0; i < 2; i++) /* twice the same */
        assert_true(m->apply(linear, x.f, x.dim[0], y, job.rows));
    m->free_linear(linear);
    return y;
}

/* Relative to the largest output of the package for inputs of that type (f32, f16). */
static double largest_error(const struct fixture *f, const char *layer, const char *inputs,
                            const char *type, const float *y)
{
    char name[64];
    snprintf(name, sizeof name, "%s.Y_%s", inputs, type);
    struct fixture_tensor expected = tensor(f, layer, name);
    const float *bias = tensor(f, layer, "int8.bias").f;
    double most = 0, error = 0;
    for (int64_t i = 0; i < expected.dim[0] * expected.dim[1]; i++) {
        const double e = (double)expected.f[i], b = (double)bias[i % expected.dim[1]];
        most = fmax(most, fabs(e));
        error = fmax(error, fabs((double)y[i] + b - e));
    }
    return error / most;
}

/* Outputs of LLM.int8(), with and without outliers; without their own treatment they differ. In f16
 * the package also rounds the bias, the outliers' products and the outputs. */
static void int8_outputs_are_those_of_the_package(void **state)
{
    (void)state;
    struct fixture f = {0};
    assert_true(fixture_open(&f, FIXTURES "/float4", "float4"));
    for (int i = 0; i < 3; i++) {
        static const char *const inputs[] = {"int8.X", "int8.Xout"};
        for (int k = 0; k < 2; k++) {
            float *y = apply(&f, layers[i], inputs[k], 6),
                  *without = apply(&f, layers[i], inputs[k], 0);
            assert_true(largest_error(&f, layers[i], inputs[k], "f32", y) < 1e-6);
            assert_true(largest_error(&f, layers[i], inputs[k], "f16", y) < 2e-3);
            assert_true((largest_error(&f, layers[i], inputs[k], "f32", without) > 1e-3) == k);
            free(y);
            free(without);
        }
    }
    fixture_close(&f);
}

/* A token of NaN, whose largest magnitude is none, infinite numbers, and one that f16 does not
 * hold, unless it is that of an outlier channel; whether integers are multiplied or not. */
static void int8_tells_what_it_cannot_round(void **state)
{
    (void)state;
    enum { COLS = 40, TOKENS = 3 };
    static const struct {
        float x;
        bool everywhere;
        double threshold;
        bool rounds;
    } cases[] = {{NAN, true, 6, false},   {NAN, false, 6, false}, {INFINITY, false, 6, false},
                 {1e6f, false, 0, false}, {1e6f, false, 6, true}, {5, true, 6, true}};
    const struct quant_method *m = quant_find("int8");
    struct quant_options o = options_make(128);
    struct err e = {0};
    float w[2 * COLS], x[TOKENS * COLS], y[TOKENS * 2];
    const struct quant_job job = {.bits = 8, .options = &o, .rows = 2, .cols = COLS, .w = w};
    for (int j = 0; j < 2 * COLS; j++) w[j] = (float)j - COLS;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        void *linear;
        memcpy(&o.own[METHOD_int8], &cases[k].threshold, sizeof cases[k].threshold);
        for (int j = 0; j < TOKENS * COLS; j++) x[j] = 1;
        for (int j = 0; j < COLS; j++)
            if (cases[k].everywhere || j == 7) x[COLS + j] = cases[k].x;
        assert_int_equal(m->make_linear(&job, TOKENS, &linear, &e), OK);
        assert_int_equal(m->apply(linear, x, TOKENS, y, 2), cases[k].rounds);
        m->free_linear(linear);
    }
}

static void the_dynamic_map_is_that_of_the_package(void **state)
{
    (void)state;
    struct fixture f = {0};
    float map[CODES_DYNAMIC];
    assert_true(fixture_open(&f, FIXTURES "/float4", "float4"));
    const float *expected = fixture_get(&f, "table.dynamic8").f;
    codes_dynamic(map);
    for (int i = 0; i < CODES_DYNAMIC; i++) assert_true(map[i] == expected[i]);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_are_those_of_the_packages),
        cmocka_unit_test(int8_weights_are_those_of_the_package),
        cmocka_unit_test(int8_outputs_are_those_of_the_package),
        cmocka_unit_test(int8_tells_what_it_cannot_round),
        cmocka_unit_test(the_dynamic_map_is_that_of_the_package),
    };
    linalg_setup();
    return cmocka_run_group_tests(tests, NULL, NULL);
}

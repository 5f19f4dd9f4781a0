/* hqq against the package of that name (tests/fixtures/hqq). */
#include "fixture.h"
#include "layer.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

static const char *const layers[] = {"48x96", "32x128"}; /* 96 is no multiple of a group of 64 */
static const char *const settings[] = {"b2", "b3", "b4", "b4_rz", "b4_rz_noopt", "b8"};

static struct quant_options options_of(const char *setting, int64_t *bits)
{
    struct quant_options o = options_make(64);
    struct err e = {0};
    int used;
    char flag[] = "--round-zero", never[] = "never", always[] = "always", none[] = "0";
    char steps[] = "--optimize-steps";
    char *rounds[] = {flag, strstr(setting, "_rz") ? always : never}, *stop[] = {steps, none};
    *bits = setting[1] - '0';
    assert_int_equal(options_flag(&quant_table, "", &o, 2, rounds, &used, &e), OK);
    assert_int_equal(used, 2);
    if (strstr(setting, "_noopt"))
        assert_int_equal(options_flag(&quant_table, "", &o, 2, stop, &used, &e), OK);
    return o;
}

static struct fixture_tensor tensor(const struct fixture *f, const char *layer, const char *setting,
                                    const char *name)
{
    char key[64];
    snprintf(key, sizeof key, "%s.%s%s%s", layer, setting, *setting ? "." : "", name);
    struct fixture_tensor t = fixture_get(f, key);
    assert_non_null(t.data);
    return t;
}

/* Codes are equal but for ties that the order of a sum decides: then the value is a step away. */
static int64_t case_check(const struct fixture *f, const char *layer, const char *setting)
{
    int64_t bits, differ = 0;
    struct quant_options o = options_of(setting, &bits);
    struct fixture_tensor w = tensor(f, layer, "", "W");
    struct fixture_tensor codes = tensor(f, layer, setting, "codes");
    struct fixture_tensor scale = tensor(f, layer, setting, "scale");
    struct fixture_tensor zero = tensor(f, layer, setting, "zero");
    const struct layer l = {.rows = w.dim[0], .cols = w.dim[1], .w = (float *)(uintptr_t)w.f};
    struct quant_report r;
    struct err e = {0};
    float *q;
    if (layer_quantize(&l, quant_find("hqq"), bits, &o, &q, &r, &e) != OK) fail_msg("%s", e.text);
    for (int64_t i = 0; i < l.rows * l.cols; i++) {
        float expected =
            ((float)((const uint8_t *)codes.data)[i] - zero.f[i / 64]) * scale.f[i / 64];
        float miss = fabsf(q[i] - expected), step = scale.f[i / 64];
        assert_true(miss <= 1.01f * step);
        differ += miss > 1e-5f * (fabsf(zero.f[i / 64]) + 1) * step;
    }
    assert_float_equal(r.bits_per_weight, (double)bits + 0.5, 1e-12);
    assert_true(isnan(r.error) && isnan(r.relative_error) && isnan(r.damping));
    free(q);
    return differ;
}

static void codes_are_those_of_the_package(void **state)
{
    (void)state;
    struct fixture f = {0};
    assert_true(fixture_open(&f, FIXTURES "/hqq", "hqq"));
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 6; k++) {
            int64_t differ = case_check(&f, layers[i], settings[k]);
            if (differ) printf("%s %s: %lld differ\n", layers[i], settings[k], (long long)differ);
            assert_true(differ <= 2);
        }
    fixture_close(&f);
}

/* At 4 bits, and only there, the zero starts as an integer unless it is said otherwise; steps lower
 * the norm that they are for. */
static void zeros_round_at_4_bits_and_steps_lower_the_norm(void **state)
{
    (void)state;
    struct layer l = layer_make(70, 96, 100);
    const struct quant_method *m = quant_find("hqq");
    for (int64_t bits = 3; bits <= 4; bits++) {
        int64_t ignored;
        struct quant_options automatic = options_make(64), same, other;
        same = options_of(bits == 4 ? "b4_rz" : "b3", &ignored);
        other = options_of(bits == 4 ? "b4" : "b3_rz", &ignored);
        struct quant_report r;
        float *a, *b, *c;
        assert_int_equal(layer_quantize(&l, m, bits, &automatic, &a, &r, NULL), OK);
        assert_int_equal(layer_quantize(&l, m, bits, &same, &b, &r, NULL), OK);
        assert_int_equal(layer_quantize(&l, m, bits, &other, &c, &r, NULL), OK);
        assert_memory_equal(a, b, 70 * 96 * sizeof *a);
        assert_memory_not_equal(a, c, 70 * 96 * sizeof *a);
        free(a), free(b), free(c);
    }
    assert_int_equal(quant_options_owner("round_zero"), METHOD_hqq);
    assert_int_equal(quant_options_owner("group_size"), -1);
    layer_free(&l);
}

/* The package's optimisation of one group without rounding of the zero, in a plain loop: q = the
 * weights; returns how many errors were too large to shrink to 0. */
static int64_t optimise_group(const float *w, int64_t n, int64_t bits, float *q)
{
    const float codes = (float)((1 << bits) - 1), beta = 10;
    float low = INFINITY, high = -INFINITY;
    double least = INFINITY;
    int64_t large = 0;
    for (int64_t j = 0; j < n; j++) low = fminf(low, w[j]), high = fmaxf(high, w[j]);
    float inverse = codes / (high - low), zero = -low * inverse;
    for (int step = 0; step < 20; step++) {
        double error = 0, next = 0;
        for (int64_t j = 0; j < n; j++) {
            const float code = fminf(fmaxf(nearbyintf(w[j] * inverse + zero), 0), codes);
            const float miss = w[j] - (code - zero) / inverse, size = fabsf(miss);
            const float rest = size > 0 ? fmaxf(size - powf(size, 0.7f - 1) / beta, 0) : 0;
            large += rest > 0;
            error += (double)size;
            next += (double)(code - (w[j] - copysignf(rest, miss)) * inverse);
        }
        zero = (float)(next / (double)n);
        if (!(error < least)) break;
        least = error;
    }
    for (int64_t j = 0; j < n; j++)
        q[j] = (fminf(fmaxf(nearbyintf(w[j] * inverse + zero), 0), codes) - zero) / inverse;
    return large;
}

/* The fixtures' errors are all so small that they shrink to 0. */
static void large_errors_shrink_by_the_norm(void **state)
{
    (void)state;
    enum { N = 64 };
    for (uint64_t seed = 1; seed < 20; seed++) {
        float w[N], expected[N], *q;
        uint64_t random = seed;
        int64_t bits;
        const struct quant_options o = options_of("b2", &bits);
        const struct layer l = {.rows = 1, .cols = N, .w = w};
        struct quant_report r;
        for (int j = 0; j < N; j++) w[j] = 2 * noise(&random);
        assert_true(optimise_group(w, N, bits, expected) > N / 4);
        assert_int_equal(layer_quantize(&l, quant_find("hqq"), bits, &o, &q, &r, NULL), OK);
        for (int j = 0; j < N; j++) assert_float_equal(q[j], expected[j], 1e-5);
        free(q);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(codes_are_those_of_the_package),
        cmocka_unit_test(large_errors_shrink_by_the_norm),
        cmocka_unit_test(zeros_round_at_4_bits_and_steps_lower_the_norm),
    };
    linalg_setup();
    return cmocka_run_group_tests(tests, NULL, NULL);
}

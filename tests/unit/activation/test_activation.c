/* Grids of activations, against the codes, scales and zeros of QuaRot's ActQuantizer
 * (tests/fixtures/activations), and what it leaves undefined. */
#include "activation/activation.h"
#include "math/isa.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fixture.h"

enum { ROWS = 24, COLS = 96 };

/* The row in groups, one by one, against the fixture's setting. */
static void check_row(const struct fixture *f, const char *name, const struct activation_grid *g,
                      int64_t row)
{
    char key[80];
    const int64_t size = g->group_size < 0 ? COLS : g->group_size, groups = COLS / size;
    const float *x = fixture_get(f, "X").f + row * COLS;
    snprintf(key, sizeof key, "%s.codes", name);
    const int16_t *codes = (const int16_t *)fixture_get(f, key).data + row * COLS;
    snprintf(key, sizeof key, "%s.scale", name);
    const float *scale = fixture_get(f, key).f + row * groups;
    snprintf(key, sizeof key, "%s.zero", name);
    const float *zero = fixture_get(f, key).f;
    float y[COLS];
    memcpy(y, x, sizeof y);
    activation_row(g, g->group_size, y, COLS);
    for (int64_t i = 0; i < COLS; i++) {
        struct activation_range r = ACTIVATION_EMPTY;
        activation_extend(&r, x + i / size * size, size);
        const struct activation_scale s = activation_scale(g, r, g->group_size < 0);
        const float z = zero ? zero[row * groups + i / size] : 0;
        assert_true(s.scale == scale[i / size] && s.zero == z);
        assert_true(y[i] == s.scale * ((float)codes[i] - z));
    }
}

static void test_codes_of_the_reference(void **state)
{
    (void)state;
    struct fixture f;
    int n = 0;
    assert_true(fixture_open(&f, FIXTURES "/activations", "quantizer"));
    for (enum isa isa = ISA_PLAIN; isa <= ISA_AVX512; isa++) {
        if (!isa_runs(isa)) continue;
        isa_use(isa);
        for (int bits = 2; bits <= 8; bits += bits < 4 ? 1 : 4)
            for (int k = 0; k < 8; k++) {
                const struct activation_grid g = {.bits = bits,
                                                  .symmetric = k % 2,
                                                  .clip = k / 2 % 2 ? 0.9 : 1,
                                                  .group_size = k / 4 ? 32 : -1};
                char name[64];
                snprintf(name, sizeof name, "b%d_%s_%s_c%s", bits, g.symmetric ? "sym" : "asym",
                         g.group_size < 0 ? "gall" : "g32", g.clip < 1 ? "0.9" : "1");
                for (int64_t row = 0; row < ROWS; row++) check_row(&f, name, &g, row);
                n++;
            }
    }
    assert_true(n >= 32);
    fixture_close(&f);
}

/* Atom, QUIK and SmoothQuant have grids of the same form, but take magnitudes, or ranges, below
 * 1e-5 for 1e-5: there numbers become 0, which differ by less than that. */
static void test_outputs_of_other_references(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        struct activation_grid grid;
        bool least;
    } settings[] = {
        {"atom.b4_sym_g32_c0.9",
         {.bits = 4, .symmetric = true, .clip = 0.9, .group_size = 32},
         true},
        {"atom.b4_asym_g32_c1", {.bits = 4, .clip = 1, .clamp_zero = true, .group_size = 32}, true},
        {"atom.b8_sym_gall_c1", {.bits = 8, .symmetric = true, .clip = 1, .group_size = -1}, true},
        {"quik.b4_asym_gall", {.bits = 4, .clip = 1, .group_size = -1}, false},
        {"quik.b8_asym_gall", {.bits = 8, .clip = 1, .group_size = -1}, false},
        {"smoothquant.b8_sym_gall",
         {.bits = 8, .symmetric = true, .clip = 1, .group_size = -1},
         true},
    };
    struct fixture f;
    int tiny = 0;
    assert_true(fixture_open(&f, FIXTURES "/activations", "quantizer"));
    const float *X = fixture_get(&f, "X").f;
    for (size_t k = 0; k < sizeof settings / sizeof *settings; k++) {
        const struct activation_grid *g = &settings[k].grid;
        const float *reference = fixture_get(&f, settings[k].name).f;
        const int64_t size = g->group_size < 0 ? COLS : g->group_size;
        for (int64_t i = 0; i < ROWS * COLS; i += size) {
            struct activation_range r = ACTIVATION_EMPTY;
            float y[COLS];
            memcpy(y, X + i, (size_t)size * sizeof *y);
            activation_extend(&r, y, size);
            activation_row(g, g->group_size, y, size);
            const float range = g->symmetric ? fmaxf(-r.low, r.high) : r.high - r.low;
            const bool exact = !settings[k].least || range == 0 || range >= 1e-5f;
            for (int64_t j = 0; j < size; j++)
                assert_true(exact ? y[j] == reference[i + j]
                                  : fabsf(y[j] - reference[i + j]) < 1e-5f);
            tiny += !exact;
        }
    }
    assert_int_equal(tiny, 3 + 3 + 1 + 1); /* the groups of one token */
    fixture_close(&f);
}

/* Outlier channels of Atom, in order of scores, and of QUIK, bit for bit. */
static void test_outliers_of_the_reference(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        struct activation_grid grid;
    } settings[] = {
        {"atom.hessian.W4A4",
         {.bits = 4,
          .symmetric = true,
          .clip = 0.9,
          .group_size = 16,
          .outliers = 16,
          .outlier_bits = 8}},
        {"atom.hessian.W4A4_fpkeeper",
         {.bits = 4,
          .symmetric = true,
          .clip = 0.9,
          .group_size = 16,
          .outliers = 16,
          .outlier_bits = 16}},
        {"atom.hessian.W4A4_keep8_g32",
         {.bits = 4,
          .symmetric = true,
          .clip = 0.9,
          .group_size = 32,
          .outliers = 8,
          .outlier_bits = 8}},
        {"atom.hessian.W4A4_asym",
         {.bits = 4,
          .clip = 0.9,
          .clamp_zero = true,
          .group_size = 16,
          .outliers = 16,
          .outlier_bits = 8}},
        {"atom.hessian.W8A8",
         {.bits = 8,
          .symmetric = true,
          .clip = 1,
          .group_size = 16,
          .outliers = 16,
          .outlier_bits = 8}},
        {"atom.abs_mean.W4A4",
         {.bits = 4,
          .symmetric = true,
          .clip = 0.9,
          .group_size = 16,
          .outliers = 16,
          .outlier_bits = 8}},
        {"quik.W4A4", {.bits = 4, .clip = 1, .group_size = -1, .outliers = 8, .outlier_bits = 16}},
        {"quik.W4A4_noclip",
         {.bits = 4, .clip = 1, .group_size = -1, .outliers = 8, .outlier_bits = 16}},
        {"quik.W4A4_none", {.bits = 4, .clip = 1, .group_size = -1}},
        {"quik.W8A8", {.bits = 8, .clip = 1, .group_size = -1, .outliers = 8, .outlier_bits = 16}},
    };
    struct fixture f;
    assert_true(fixture_open(&f, FIXTURES "/activations", "outliers"));
    const float *X = fixture_get(&f, "X").f;
    for (size_t k = 0; k < sizeof settings / sizeof *settings; k++) {
        char key[80];
        float x[COLS], scratch[COLS];
        const int words = (int)(strrchr(settings[k].name, '.') - settings[k].name);
        snprintf(key, sizeof key, "%.*s.order", words, settings[k].name);
        const int32_t *order = fixture_get(&f, key).data;
        snprintf(key, sizeof key, "%s.xq", settings[k].name);
        const float *reference = fixture_get(&f, key).f;
        for (int64_t i = 0; i < 48; i++) {
            memcpy(x, X + i * COLS, sizeof x);
            activation_row_outliers(&settings[k].grid, settings[k].grid.group_size, order, x, COLS,
                                    scratch);
            for (int64_t j = 0; j < COLS; j++)
                assert_true(x[order[j]] == reference[i * COLS + (key[0] == 'a' ? j : order[j])]);
        }
    }
    fixture_close(&f);
}

static void test_order_of_channels(void **state)
{
    (void)state;
    const double score[] = {3, 1, 2, 1, 0, 3};
    const int32_t expected[] = {4, 1, 3, 2, 0, 5};
    int32_t order[6];
    struct err e = {0};
    assert_int_equal(activation_order(score, 6, order, &e), OK);
    assert_memory_equal(order, expected, sizeof order);
}

/* All 256 numbers of a format, and what lies between two: the nearest, even where two are as near.
 * torch.float8_e4m3fn and float8_e5m2 have the same. */
static void test_floats(void **state)
{
    (void)state;
    for (int codes = INPUT_FP8_E4M3; codes <= INPUT_FP8_E5M2; codes++) {
        const bool four = codes == INPUT_FP8_E4M3;
        const int mantissa = four ? 3 : 2, bias = four ? 7 : 15, n = four ? 127 : 124;
        const struct activation_grid g = {.bits = 8, .codes = codes, .clip = 1, .group_size = -1};
        float value[128];
        for (int i = 0; i < n; i++) {
            const int power = i >> mantissa, low = i & ((1 << mantissa) - 1);
            value[i] = power ? ldexpf((float)((1 << mantissa) + low), power - bias - mantissa)
                             : ldexpf((float)low, 1 - bias - mantissa);
        }
        assert_true(value[n - 1] == (four ? 448 : 57344));
        for (int i = 0; i + 1 < n; i++) {
            const float scale = 0.37f, middle = (value[i] + value[i + 1]) / 2;
            float x[] = {value[n - 1], middle, value[i] + (middle - value[i]) * 0.9f, -middle,
                         -value[i + 1]};
            activation_row(&g, -1, x, 5);
            assert_true(x[0] == value[n - 1] && x[4] == -value[i + 1]);
            assert_true(x[1] == value[i % 2 ? i + 1 : i] && x[3] == -x[1] && x[2] == value[i]);
            float y[] = {value[n - 1] * scale, middle * scale};
            activation_row(&g, -1, y, 2);
            assert_true(fabsf(y[0] - value[n - 1] * scale) <= 1e-6f * y[0]);
        }
    }
}

/* QuaRot divides by zero where all numbers of an asymmetric group are equal. */
static void test_equal_numbers_stay(void **state)
{
    (void)state;
    const struct activation_grid g = {.bits = 4, .clip = 0.95, .group_size = 16};
    float x[32];
    for (int i = 0; i < 32; i++) x[i] = i < 16 ? 0.7f : 0;
    activation_row(&g, 16, x, 32);
    for (int i = 0; i < 32; i++) assert_true(x[i] == (i < 16 ? 0.7f : 0));
}

static void test_what_is_not_finite_stays_so(void **state)
{
    (void)state;
    for (int k = 0; k < 8; k++) {
        const struct activation_grid g = {
            .bits = 4, .symmetric = k % 2, .clip = 1, .group_size = k / 2 % 2 ? 16 : -1};
        float x[16];
        for (int i = 0; i < 16; i++) x[i] = (float)i - 7.5f;
        x[3] = k / 4 ? NAN : INFINITY;
        activation_row(&g, g.group_size, x, 16);
        assert_false(isfinite(x[3]));
    }
}

/* Codes times the scale are the quantized values bit for bit, at every width and of every range: on
 * one side of 0, of zeros, below the normal numbers, with ends that are clipped. */
static void test_codes_are_the_values(void **state)
{
    (void)state;
    static const float from[] = {-1, 0, 0.5f, -2, 0, 0}, to[] = {1, 2, 2, -1, 0, 1e-40f};
    const enum isa before = isa_active();
    for (int k = 0; k < 6 * 7 * 2 * ISA_N; k++) {
        const int range = k % 6, isa = k / (6 * 7 * 2);
        const struct activation_grid g = {
            .bits = 2 + k / 6 % 7, .symmetric = k / 42 % 2, .clip = 0.9, .group_size = -1};
        float x[COLS], value[COLS];
        uint8_t code[COLS];
        int32_t zero;
        if (!isa_runs((enum isa)isa)) continue;
        isa_use((enum isa)isa);
        for (int i = 0; i < COLS; i++)
            x[i] = from[range] + (to[range] - from[range]) * (float)(i * 37 % COLS) / (COLS - 1);
        memcpy(value, x, sizeof x);
        activation_row(&g, -1, value, COLS);
        const struct activation_scale s = activation_scale_of(&g, x, COLS, true);
        activation_codes(&s, x, COLS, code, &zero);
        assert_in_range(zero, 0, (1 << g.bits) - 1);
        for (int i = 0; i < COLS && s.scale > 0; i++) {
            assert_in_range(code[i], 0, (1 << g.bits) - 1);
            assert_true(s.scale * ((float)code[i] - (float)zero) == value[i]);
        }
        for (int i = 0; i < COLS && s.scale == 0; i++) assert_int_equal(code[i], zero);
        x[5] = NAN;
        activation_codes(&s, x, COLS, code, &zero);
        assert_in_range(code[5], 0, (1 << g.bits) - 1);
    }
    isa_use(before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_codes_of_the_reference),
        cmocka_unit_test(test_outputs_of_other_references),
        cmocka_unit_test(test_outliers_of_the_reference),
        cmocka_unit_test(test_order_of_channels),
        cmocka_unit_test(test_floats),
        cmocka_unit_test(test_equal_numbers_stay),
        cmocka_unit_test(test_what_is_not_finite_stays_so),
        cmocka_unit_test(test_codes_are_the_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

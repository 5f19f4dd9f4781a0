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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_codes_of_the_reference),
        cmocka_unit_test(test_equal_numbers_stay),
        cmocka_unit_test(test_what_is_not_finite_stays_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

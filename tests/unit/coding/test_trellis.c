/* Trellis codes and the search for walks against QTIP's authors' code (tests/fixtures/trellis), and
 * against trying all walks. */
#include "coding/viterbi.h"
#include "fixture.h"
#include "math/dtype.h"
#include "math/isa.h"
#include "util/rng.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

static struct fixture fixture;

static int kind_of(const char *mode)
{
    return strcmp(mode, "1mad") == 0    ? BITSHIFT_1MAD
           : strcmp(mode, "3inst") == 0 ? BITSHIFT_3INST
                                        : BITSHIFT_HYB;
}

static int64_t number(const json_t *entry, const char *key)
{
    return json_integer_value(json_object_get(entry, key));
}

static struct bitshift code_make(const char *mode, int64_t window, int64_t bits)
{
    struct bitshift c;
    struct err e = {0};
    if (bitshift_make(kind_of(mode), window, bits, fixture_get(&fixture, "hyb.table").f, &c, &e) !=
        OK)
        fail_msg("%s", e.text);
    return c;
}

static void values_are_those_of_the_authors(void **state)
{
    (void)state;
    static const char *const modes[] = {"1mad", "3inst", "hyb"};
    for (int i = 0; i < 3; i++) {
        struct bitshift c = code_make(modes[i], 16, 2);
        const float *expected = fixture_get(&fixture, modes[i]).f;
        double sum = 0;
        for (int64_t s = 0; expected && s < 1 << 16; s += 16)
            assert_true(c.value[s] == expected[s / 16]);
        for (int64_t s = 0; s < c.values << 16; s++) sum += fabs((double)c.value[s]);
        const double all =
            json_number_value(json_object_get(json_object_get(fixture.meta, "sums"), modes[i]));
        assert_true(fabs(sum - all) < 1e-6);
        bitshift_free(&c);
    }
}

static double distance(const struct bitshift *c, const float *x, const int32_t *s, int64_t steps)
{
    double sum = 0;
    for (int64_t i = 0; i < steps * c->values; i++) {
        const double d =
            (double)c->value[s[i / c->values] * c->values + i % c->values] - (double)x[i];
        sum += d * d;
    }
    return sum;
}

/* A walk of shifts that ends as it begins. */
static void check_walk(const struct bitshift *c, const int32_t *s, int64_t steps)
{
    const int32_t low = (int32_t)c->groups - 1;
    for (int64_t i = 0; i < steps; i++)
        assert_int_equal(s[i] & low, s[(i + 1) % steps] >> c->branch);
}

static int64_t differing; /* states, of equal cost */

static void check_sequences(const char *name, const json_t *entry)
{
    const int64_t total = number(entry, "T"), n = number(entry, "n");
    struct bitshift c = code_make(json_string_value(json_object_get(entry, "mode")),
                                  number(entry, "L"), number(entry, "K"));
    const int64_t steps = total / c.values, words = (steps * c.branch + 15) / 16;
    struct viterbi v;
    char key[64];
    int32_t found[256], again[256];
    uint8_t packed[512];
    float x[256];
    assert_int_equal(viterbi_make(&c, steps, &v, NULL), OK);
    snprintf(key, sizeof key, "%s.x", name);
    const float *all = fixture_get(&fixture, key).f;
    snprintf(key, sizeof key, "%s.state", name);
    const int32_t *expected = fixture_get(&fixture, key).data;
    snprintf(key, sizeof key, "%s.packed", name);
    const uint16_t *bits = fixture_get(&fixture, key).data;
    for (int64_t i = 0; i < n; i++) {
        int64_t differ = 0;
        for (int64_t k = 0; k < total; k++) x[k] = dtype_round_f16(all[i * total + k]);
        viterbi_tail_biting(&c, &v, x, steps, found);
        check_walk(&c, found, steps);
        for (int64_t k = 0; k < steps; k++) differ += found[k] != expected[i * steps + k];
        const double a = distance(&c, x, found, steps),
                     b = distance(&c, x, expected + i * steps, steps);
        if (fabs(a - b) > 1e-6 * b) fail_msg("%s: %g, by the authors %g", name, a, b);
        differing += differ;
        bitshift_pack(&c, found, steps, packed);
        if (differ == 0)
            for (int64_t k = 0; k < words; k++)
                assert_int_equal(packed[2 * k] << 8 | packed[2 * k + 1], bits[i * words + k]);
        bitshift_unpack(&c, packed, steps, again);
        assert_memory_equal(found, again, (size_t)steps * sizeof *found);
    }
    viterbi_free(&v);
    bitshift_free(&c);
}

static void walks_are_those_of_the_authors(void **state)
{
    (void)state;
    const char *name;
    json_t *entry;
    json_object_foreach(json_object_get(fixture.meta, "sequences"), name, entry)
        check_sequences(name, entry);
    printf("%lld states differ at equal distance\n", (long long)differing);
    assert_true(differing <= 2);
}

/* The least distance over all walks of so many steps from a state, by trying them. */
static double best_from(const struct bitshift *c, const float *x, int64_t steps, int64_t s)
{
    double least = INFINITY, here = 0;
    for (int64_t k = 0; k < c->values; k++) {
        const double d = (double)c->value[s * c->values + k] - (double)x[k];
        here += d * d;
    }
    if (steps == 1) return here;
    for (int64_t b = 0; b < (int64_t)1 << c->branch; b++)
        least = fmin(least, best_from(c, x + c->values, steps - 1,
                                      (s << c->branch | b) & ((1 << c->window) - 1)));
    return here + least;
}

/* Every kind and width that the kernels treat differently; both kernels find the same. */
static void walks_are_the_best_of_all(void **state)
{
    (void)state;
    const enum isa usual = isa_active();
    static const struct {
        int kind;
        int64_t window, bits, steps;
    } cases[] = {{BITSHIFT_1MAD, 8, 1, 7}, {BITSHIFT_1MAD, 8, 2, 4}, {BITSHIFT_3INST, 8, 3, 3},
                 {BITSHIFT_1MAD, 8, 4, 3}, {BITSHIFT_HYB, 8, 1, 4},  {BITSHIFT_HYB, 8, 2, 3},
                 {BITSHIFT_HYB, 12, 3, 2}, {BITSHIFT_HYB, 16, 4, 2}};
    for (int i = 0; i < 8; i++) {
        struct bitshift c;
        struct viterbi v;
        struct err e = {0};
        float x[16];
        int32_t found[8], plain[8];
        double least = INFINITY;
        if (bitshift_make(cases[i].kind, cases[i].window, cases[i].bits, NULL, &c, &e) != OK)
            fail_msg("%s", e.text);
        assert_int_equal(viterbi_make(&c, cases[i].steps, &v, NULL), OK);
        rng_normals(37, i * 16, 16, x);
        viterbi_search(&c, &v, x, cases[i].steps, -1, found);
        isa_use(ISA_PLAIN);
        viterbi_search(&c, &v, x, cases[i].steps, -1, plain);
        isa_use(usual);
        assert_memory_equal(found, plain, (size_t)cases[i].steps * sizeof *found);
        for (int64_t s = 0; s < 1 << c.window; s++)
            least = fmin(least, best_from(&c, x, cases[i].steps, s));
        assert_true(fabs(distance(&c, x, found, cases[i].steps) - least) < 1e-5 * least + 1e-9);
        memset(c.planes, 0, (size_t)(c.values << c.window) * sizeof *c.planes); /* all are equal */
        for (int plain_one = 0; plain_one < 2; plain_one++) {
            isa_use(plain_one ? ISA_PLAIN : usual);
            viterbi_search(&c, &v, x, cases[i].steps, -1, found);
            for (int64_t k = 0; k < cases[i].steps; k++) assert_int_equal(found[k], 0);
        }
        isa_use(usual);
        viterbi_free(&v);
        bitshift_free(&c);
    }
}

static void small_windows_are_refused(void **state)
{
    (void)state;
    struct bitshift c;
    struct err e = {0};
    assert_int_equal(bitshift_make(BITSHIFT_HYB, 12, 4, NULL, &c, &e), ERR_USAGE);
    assert_non_null(strstr(e.text, "it needs 16"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_those_of_the_authors),
        cmocka_unit_test(walks_are_those_of_the_authors),
        cmocka_unit_test(walks_are_the_best_of_all),
        cmocka_unit_test(small_windows_are_refused),
    };
    if (!fixture_open(&fixture, FIXTURES "/trellis", "trellis")) return 1;
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    fixture_close(&fixture);
    return failed;
}

/* The codebooks of QuIP# against trying all of their vectors (tests/fixtures/e8/make.py). */
#include "coding/e8.h"
#include "fixture.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

static double distance(const float *x, const float *q)
{
    double sum = 0;
    for (int i = 0; i < E8_DIM; i++)
        sum += ((double)x[i] - (double)q[i]) * ((double)x[i] - (double)q[i]);
    return sum;
}

static void vectors_are_the_nearest(void **state)
{
    (void)state;
    static struct e8 table;
    struct fixture f = {0};
    assert_true(fixture_open(&f, FIXTURES "/e8", "e8"));
    const struct fixture_tensor x = fixture_get(&f, "x");
    int64_t differ = 0;
    e8_fill(&table);
    for (int64_t bits = 2; bits <= 4; bits++) {
        char key[16];
        double sum = 0, all = 0;
        snprintf(key, sizeof key, "q%d", (int)bits);
        const float *expected = fixture_get(&f, key).f;
        for (int64_t a = 0; a < x.dim[0]; a += E8_ROWS) {
            float q[E8_ROWS * E8_DIM];
            uint8_t code[E8_ROWS * 4];
            e8_nearest(&table, bits, x.f + a * E8_DIM, code);
            e8_values(&table, bits, code, q);
            for (int64_t r = 0; r < E8_ROWS; r++) {
                const float *to = x.f + (a + r) * E8_DIM, *best = expected + (a + r) * E8_DIM;
                const double d = distance(to, q + r * E8_DIM);
                for (int i = 0; i < E8_DIM; i++)
                    differ += fabsf(q[r * E8_DIM + i] - best[i]) > 1e-5f;
                assert_true(fabs(d - distance(to, best)) < 1e-5); /* or as near */
                sum += d;
                all += distance(to, (const float[E8_DIM]){0});
            }
        }
        printf("%d bits: error %.4f of normally distributed numbers\n", (int)bits, sum / all);
    }
    assert_int_equal(differ, 0);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(vectors_are_the_nearest)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* f32 numbers as sums of bf16 terms: the errors, exactness of three terms, ties, infinities, and
 * the same bits of every instruction set. */
#include "math/bf16.h"
#include "math/dtype.h"
#include "math/isa.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { N = 1003 };
static float x[N];
static uint16_t terms[BF16_TERMS * N];

static void fill(void)
{
    uint64_t s = 5;
    for (int i = 0; i < N; i++) {
        s = s * 6364136223846793005u + 1442695040888963407u;
        x[i] = ldexpf((float)((double)(s >> 40) / (1 << 23) - 1.0), i % 61 - 30);
    }
    x[1] = 0, x[2] = -0.0f, x[3] = 0x1.01p0f, x[4] = 0x1.03p0f; /* the last two are ties */
}

static double sum_of(int i, int n_terms)
{
    double sum = 0;
    for (int k = 0; k < n_terms; k++) {
        float wide;
        dtype_widen(&wide, &terms[k * N + i], DTYPE_BF16, 1);
        sum += (double)wide;
    }
    return sum;
}

static void terms_leave_less_than_their_bound(void **state)
{
    (void)state;
    static const double bound[] = {0x1p-8, 0x1p-17, 0};
    fill();
    for (int n = 1; n <= BF16_TERMS; n++) {
        bf16_split(terms, N, n, x, N);
        for (int i = 0; i < N; i++)
            assert_true(fabs(sum_of(i, n) - (double)x[i]) <= bound[n - 1] * fabs((double)x[i]));
        for (int i = 0; i < N; i++) {
            uint16_t narrow; /* the first is x rounded */
            dtype_narrow(&narrow, &(double){(double)x[i]}, DTYPE_BF16, 1);
            assert_int_equal(terms[i], narrow);
        }
    }
}

static void as_many_terms_as_are_needed(void **state)
{
    (void)state;
    fill();
    assert_int_equal(bf16_terms(x, N), 3);
    for (int n = 1; n <= BF16_TERMS; n++) {
        fill();
        bf16_split(terms, N, n, x, N);
        for (int i = 0; i < N; i++) x[i] = (float)sum_of(i, n);
        assert_int_equal(bf16_terms(x, N), n);
    }
    assert_int_equal(bf16_terms(x, 0), 1);
}

static void not_finite(void **state)
{
    (void)state;
    const float odd[] = {INFINITY, -INFINITY, NAN};
    for (int i = 0; i < 3; i++) {
        uint16_t t[BF16_TERMS];
        float wide[BF16_TERMS];
        bf16_split(t, 1, BF16_TERMS, &odd[i], 1);
        dtype_widen(wide, t, DTYPE_BF16, BF16_TERMS);
        assert_true(isnan(odd[i]) ? isnan(wide[0]) : wide[0] == odd[i]);
        assert_true(wide[1] == 0 && wide[2] == 0);
    }
}

static void same_bits(void **state)
{
    (void)state;
    static uint16_t plain[BF16_TERMS * N];
    fill();
    for (int isa = ISA_PLAIN; isa < ISA_N; isa++) {
        if (!isa_runs((enum isa)isa)) continue;
        isa_use((enum isa)isa);
        memset(terms, 0, sizeof terms);
        bf16_split(terms, N, BF16_TERMS, x, N);
        if (isa == ISA_PLAIN) memcpy(plain, terms, sizeof plain);
        assert_memory_equal(terms, plain, sizeof plain);
        assert_int_equal(bf16_terms(x, N), 3);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(terms_leave_less_than_their_bound),
                                       cmocka_unit_test(as_many_terms_as_are_needed),
                                       cmocka_unit_test(not_finite), cmocka_unit_test(same_bits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

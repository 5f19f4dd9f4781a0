/* dtype: names and sizes, and the widening of every 16-bit pattern, at every alignment and length.
 */
#include "math/dtype.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static uint32_t bits_of(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

/* The value of a binary floating-point format by its definition, independent of dtype.c. */
static double value_of(unsigned h, int exponent_bits, int mantissa_bits)
{
    int bias = (1 << (exponent_bits - 1)) - 1;
    unsigned mantissa = h & ((1u << mantissa_bits) - 1);
    int exponent = (int)(h >> mantissa_bits & ((1u << exponent_bits) - 1));
    double sign = h >> 15 ? -1 : 1;
    if (exponent == (1 << exponent_bits) - 1) return mantissa ? NAN : sign * INFINITY;
    if (exponent == 0) return sign * ldexp(mantissa, 1 - bias - mantissa_bits);
    return sign * ldexp(mantissa + (1u << mantissa_bits), exponent - bias - mantissa_bits);
}

static void check_all(enum dtype t, int exponent_bits, int mantissa_bits)
{
    uint16_t *src = malloc(65536 * sizeof *src);
    float *dst = malloc(65536 * sizeof *dst);
    assert_true(src && dst);
    for (unsigned h = 0; h < 65536; h++) src[h] = (uint16_t)h;
    dtype_widen(dst, src, t, 65536);
    int nans = 0, subnormals = 0;
    for (unsigned h = 0; h < 65536; h++) {
        double want = value_of(h, exponent_bits, mantissa_bits);
        uint32_t got = bits_of(dst[h]);
        if (isnan(want)) { /* sign and payload stay */
            uint32_t payload = (h & ((1u << mantissa_bits) - 1)) << (23 - mantissa_bits);
            assert_int_equal(got, (h & 0x8000u) << 16 | 0x7f800000u | payload);
            nans++;
            continue;
        }
        subnormals += want != 0 && (h >> mantissa_bits & ((1u << exponent_bits) - 1)) == 0;
        assert_int_equal(got, bits_of((float)want));
        assert_true((double)dst[h] == want);
    }
    assert_int_equal(nans, 2 * ((1 << mantissa_bits) - 1));
    assert_int_equal(subnormals, 2 * ((1 << mantissa_bits) - 1));
    free(src);
    free(dst);
}

static void test_every_bf16(void **state)
{
    (void)state;
    check_all(DTYPE_BF16, 8, 7);
}

static void test_every_f16(void **state)
{
    (void)state;
    check_all(DTYPE_F16, 5, 10);
}

/* Lengths around the tile size, source at odd addresses, nothing written beyond the end. */
static void test_lengths_and_alignment(void **state)
{
    (void)state;
    enum { MAX = 200 };
    static const enum dtype floats[] = {DTYPE_F64, DTYPE_F32, DTYPE_F16, DTYPE_BF16};
    unsigned char raw[8 * MAX + 8];
    unsigned x = 1;
    for (size_t k = 0; k < sizeof floats / sizeof *floats; k++) {
        size_t size = dtype_size(floats[k]);
        float all[MAX], part[MAX + 1];
        for (int shift = 0; shift < 8; shift++) {
            for (size_t i = 0; i < sizeof raw; i++)
                raw[i] = (unsigned char)(x = x * 69069 + 1, x >> 24);
            for (int i = 0; i < MAX; i++)
                dtype_widen(all + i, raw + shift + (size_t)i * size, floats[k], 1);
            for (int n = 0; n <= MAX; n += n < 3 || n > 60 ? 1 : 19) {
                for (int i = 0; i <= MAX; i++) part[i] = -7;
                dtype_widen(part, raw + shift, floats[k], n);
                assert_memory_equal(part, all, (size_t)n * sizeof *part);
                assert_true(part[n] == -7);
            }
        }
    }
}

static void test_f32_is_copied_and_f64_rounds(void **state)
{
    (void)state;
    const uint32_t odd[] = {0x7f800001, 0xffc12345, 0x00000001, 0x80000000, 0x7f7fffff};
    float copy[5];
    dtype_widen(copy, odd, DTYPE_F32, 5);
    assert_memory_equal(copy, odd, sizeof odd);
    /* halfway cases go to the even neighbour */
    const double d[] = {1 + 0x1p-24, 1 + 0x1p-23 + 0x1p-24, 1e300, -1e-300, 0x1p-149, 3.5};
    const float want[] = {1, 1 + 0x1p-22f, INFINITY, -0.0f, 0x1p-149f, 3.5f};
    float got[6];
    dtype_widen(got, d, DTYPE_F64, 6);
    for (int i = 0; i < 6; i++) assert_int_equal(bits_of(got[i]), bits_of(want[i]));
}

static void types_have_names_and_sizes(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        size_t size;
        bool is_float;
    } want[] = {{"F64", 8, true},  {"F32", 4, true},  {"F16", 2, true},  {"BF16", 2, true},
                {"I64", 8, false}, {"I32", 4, false}, {"I16", 2, false}, {"I8", 1, false},
                {"U8", 1, false},  {"BOOL", 1, false}};
    assert_int_equal(sizeof want / sizeof *want, DTYPE_N);
    for (int t = 0; t < DTYPE_N; t++) {
        assert_string_equal(dtype_name((enum dtype)t), want[t].name);
        assert_int_equal(dtype_size((enum dtype)t), want[t].size);
        assert_int_equal(dtype_is_float((enum dtype)t), want[t].is_float);
        assert_int_equal(dtype_find(want[t].name), t);
    }
    assert_int_equal(dtype_find("bf16"), DTYPE_N);
    assert_int_equal(dtype_find(""), DTYPE_N);
    assert_int_equal(dtype_find("F8_E4M3"), DTYPE_N);
    assert_int_equal(dtype_size(DTYPE_N), 0);
    assert_false(dtype_is_float(DTYPE_N));
}

/* Every f16 is unchanged; a value between two of them rounds to the nearer, halfway to the even
 * one. */
static void test_round_f16(void **state)
{
    (void)state;
    for (unsigned h = 0; h < 0x7c00; h++) {
        float low = (float)value_of(h, 5, 10),
              high = h == 0x7bff ? 65536.0f : (float)value_of(h + 1, 5, 10);
        float middle = (low + high) / 2, up = h == 0x7bff ? INFINITY : high;
        assert_true(dtype_round_f16(low) == low && dtype_round_f16(-low) == -low);
        assert_true(dtype_round_f16(middle) == (h % 2 ? up : low));
        assert_true(dtype_round_f16(nextafterf(middle, 0)) == low);
        assert_true(dtype_round_f16(-nextafterf(middle, INFINITY)) == -up);
    }
    assert_true(dtype_round_f16(INFINITY) == INFINITY && isnan(dtype_round_f16(NAN)));
}

/* Every value of a 16-bit type comes back; a value between two neighbours goes to the nearer one,
 * and a tie to the even one, however close to the middle it is: also where rounding to f32 on the
 * way would make a tie of it. */
static void test_narrow_rounds_once(void **state)
{
    (void)state;
    static const enum dtype types[] = {DTYPE_BF16, DTYPE_F16};
    for (int k = 0; k < 2; k++)
        for (uint32_t h = 0; h < 0xffff; h++) {
            uint16_t in[2] = {(uint16_t)h, (uint16_t)(h + 1)}, out[5];
            float v[2];
            dtype_widen(v, in, types[k], 2);
            if (isnan(v[0]) || !isfinite(v[1]) || signbit(v[0]) != signbit(v[1])) continue;
            const double low = v[0], high = v[1], middle = low + (high - low) / 2;
            const double between[] = {low, high, middle, nextafter(middle, low),
                                      nextafter(middle, high)};
            dtype_narrow(out, between, types[k], 5);
            assert_int_equal(out[0], in[0]);
            assert_int_equal(out[1], in[1]);
            assert_int_equal(out[2], in[0] % 2 == 0 ? in[0] : in[1]);
            assert_int_equal(out[3], in[0]);
            assert_int_equal(out[4], in[1]);
        }
}

static void test_narrow_special_values(void **state)
{
    (void)state;
    const double x[] = {INFINITY, -INFINITY, NAN, 1e300, -0.0, 65519.0, 65520.0, 0x1p-60};
    uint16_t bf16[8], f16[8];
    float f32[8];
    dtype_narrow(bf16, x, DTYPE_BF16, 8);
    dtype_narrow(f16, x, DTYPE_F16, 8);
    dtype_narrow(f32, x, DTYPE_F32, 8);
    const uint16_t want_bf16[] = {0x7f80, 0xff80, 0, 0x7f80, 0x8000};
    const uint16_t want_f16[] = {0x7c00, 0xfc00, 0, 0x7c00, 0x8000, 0x7bff, 0x7c00, 0};
    for (int i = 0; i < 8; i++) {
        if (i == 2) continue;
        if (i < 5) assert_int_equal(bf16[i], want_bf16[i]);
        assert_int_equal(f16[i], want_f16[i]);
        assert_true(f32[i] == (float)x[i]);
    }
    dtype_widen(f32, bf16 + 2, DTYPE_BF16, 1);
    assert_true(isnan(f32[0]));
    dtype_widen(f32, f16 + 2, DTYPE_F16, 1);
    assert_true(isnan(f32[0]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_f16),
        cmocka_unit_test(test_every_bf16),
        cmocka_unit_test(test_every_f16),
        cmocka_unit_test(test_lengths_and_alignment),
        cmocka_unit_test(test_f32_is_copied_and_f64_rounds),
        cmocka_unit_test(test_narrow_rounds_once),
        cmocka_unit_test(test_narrow_special_values),
        cmocka_unit_test(types_have_names_and_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

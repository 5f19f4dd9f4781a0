#include "math/dtype.h"
#include "math/bf16.h"
#include <math.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "weights are stored little endian and are widened without swapping");

static const struct {
    const char *name;
    size_t size;
    bool is_float;
} types[DTYPE_N] = {
    [DTYPE_F64] = {"F64", 8, true},  [DTYPE_F32] = {"F32", 4, true},
    [DTYPE_F16] = {"F16", 2, true},  [DTYPE_BF16] = {"BF16", 2, true},
    [DTYPE_I64] = {"I64", 8, false}, [DTYPE_I32] = {"I32", 4, false},
    [DTYPE_I16] = {"I16", 2, false}, [DTYPE_I8] = {"I8", 1, false},
    [DTYPE_U8] = {"U8", 1, false},   [DTYPE_BOOL] = {"BOOL", 1, false},
};

size_t dtype_size(enum dtype t)
{
    return (unsigned)t < DTYPE_N ? types[t].size : 0;
}

const char *dtype_name(enum dtype t)
{
    return (unsigned)t < DTYPE_N ? types[t].name : "unknown";
}

enum dtype dtype_find(const char *name)
{
    for (int t = 0; t < DTYPE_N; t++)
        if (strcmp(types[t].name, name) == 0) return (enum dtype)t;
    return DTYPE_N;
}

bool dtype_is_float(enum dtype t)
{
    return (unsigned)t < DTYPE_N && types[t].is_float;
}

/* The loops below run over tiles of fixed length: the compiler vectorises those at any optimisation
 * level, but not a loop of unknown length at -O2. */
enum { TILE = 64 };

static inline float float_of_bits(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static inline uint32_t bits_of_float(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

/* bf16 is the upper half of an f32. */
static inline uint32_t widen_bf16(uint16_t h)
{
    return (uint32_t)h << 16;
}

/* IEEE 754 binary16 has 5 exponent bits of bias 15 and 10 of mantissa, binary32 has 8 of bias 127
 * and 23. Mantissa and exponent move up by 13 bits; the exponent gains 112, and once more 112 when
 * it is all ones (infinity, NaN), so that it is all ones again and NaN keeps its payload. A
 * subnormal m 2^-24 is taken as 2^-14 (1 + m 2^-10) - 2^-14: exact, and no f32 subnormal enters,
 * so a thread that flushes those gets the same. Masks, since a branch would keep the loop scalar.
 */
static inline uint32_t widen_f16(uint16_t h)
{
    const uint32_t shift = 112u << 23;
    uint32_t magnitude = (uint32_t)(h & 0x7fff) << 13;
    uint32_t exponent = magnitude & 0x0f800000u;
    uint32_t special = -(uint32_t)(exponent == 0x0f800000u);
    uint32_t normal = magnitude + shift + (special & shift);
    uint32_t subnormal = bits_of_float(float_of_bits(magnitude + (113u << 23)) - 0x1p-14f);
    uint32_t is_subnormal = -(uint32_t)(exponent == 0);
    return ((normal & ~is_subnormal) | (subnormal & is_subnormal)) | (uint32_t)(h & 0x8000) << 16;
}

#define WIDEN_16(function, widen)                                                                  \
    static void function(float *restrict dst, const unsigned char *restrict src, int64_t n)        \
    {                                                                                              \
        int64_t i = 0;                                                                             \
        for (; i + TILE <= n; i += TILE) {                                                         \
            uint16_t h[TILE];                                                                      \
            uint32_t bits[TILE];                                                                   \
            memcpy(h, src + 2 * i, sizeof h);                                                      \
            for (int k = 0; k < TILE; k++) bits[k] = widen(h[k]);                                  \
            memcpy(dst + i, bits, sizeof bits);                                                    \
        }                                                                                          \
        for (; i < n; i++) {                                                                       \
            uint16_t h;                                                                            \
            memcpy(&h, src + 2 * i, sizeof h);                                                     \
            uint32_t bits = widen(h);                                                              \
            memcpy(dst + i, &bits, sizeof bits);                                                   \
        }                                                                                          \
    }

WIDEN_16(widen_all_bf16, widen_bf16)
WIDEN_16(widen_all_f16, widen_f16)

static void narrow_all_f64(float *restrict dst, const unsigned char *restrict src, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        double d;
        memcpy(&d, src + 8 * i, sizeof d);
        dst[i] = (float)d;
    }
}

void dtype_widen(float *dst, const void *src, enum dtype t, int64_t n)
{
    if (n <= 0) return;
    switch (t) {
    case DTYPE_F64:
        narrow_all_f64(dst, src, n);
        break;
    case DTYPE_F32:
        memcpy(dst, src, (size_t)n * sizeof *dst);
        break;
    case DTYPE_F16:
        widen_all_f16(dst, src, n);
        break;
    case DTYPE_BF16:
        widen_all_bf16(dst, src, n);
        break;
    default: /* callers check dtype_is_float; anything else must not look like weights */
        for (int64_t i = 0; i < n; i++) dst[i] = NAN;
    }
}

float dtype_round_f16(float x)
{
    const float size = fabsf(x);
    if (!(size < 65520.0f)) return size >= 65520.0f ? copysignf(INFINITY, x) : x;
    int exponent = 0;
    frexpf(size, &exponent); /* size < 2^exponent */
    if (exponent < -13) exponent = -13;
    return ldexpf(nearbyintf(ldexpf(x, 11 - exponent)), exponent - 11);
}

/* x as an f32 whose last bit says whether bits were lost (round to odd): rounding it to a type with
 * at least two bits less gives what rounding x at once does. */
static inline float round_to_odd(double x)
{
    float f = (float)x;
    uint32_t bits = bits_of_float(f);
    if ((double)f == x || isnan(x)) return f;
    if (fabs((double)f) > fabs(x)) bits--; /* towards zero */
    return float_of_bits(bits | 1u);
}

/* The bits of an f32 that is a value of f16. */
static uint16_t encode_f16(float x)
{
    const uint32_t bits = bits_of_float(x), size = bits & 0x7fffffffu;
    const uint32_t sign = (bits >> 16) & 0x8000u;
    if (size > 0x7f800000u) return (uint16_t)(sign | 0x7e00u);
    if (size == 0x7f800000u) return (uint16_t)(sign | 0x7c00u);
    if (size < 113u << 23) return (uint16_t)(sign | (uint32_t)(fabsf(x) * 0x1p24f));
    return (uint16_t)(sign | ((size - (112u << 23)) >> 13));
}

/* dst (n <= TILE) = src in a type of 16 bits. */
static void narrow_16(uint16_t *dst, const double *src, enum dtype t, int64_t n)
{
    float odd[TILE];
    for (int64_t k = 0; k < n; k++) odd[k] = round_to_odd(src[k]);
    if (t == DTYPE_BF16)
        bf16_split(dst, n, 1, odd, n);
    else
        for (int64_t k = 0; k < n; k++) dst[k] = encode_f16(dtype_round_f16(odd[k]));
}

void dtype_narrow(void *dst, const double *src, enum dtype t, int64_t n)
{
    const size_t size = dtype_size(t);
    if (!dtype_is_float(t)) return;
    for (int64_t i = 0, m; i < n; i += m) {
        float single[TILE];
        uint16_t half[TILE];
        const void *from = t == DTYPE_F64   ? (const void *)(src + i)
                           : t == DTYPE_F32 ? (const void *)single
                                            : (const void *)half;
        m = n - i < TILE ? n - i : TILE;
        if (t == DTYPE_F32)
            for (int64_t k = 0; k < m; k++) single[k] = (float)src[i + k];
        else if (t != DTYPE_F64)
            narrow_16(half, src + i, t, m);
        memcpy((char *)dst + (size_t)i * size, from, (size_t)m * size);
    }
}

/* Codes are read in the order of their elements, those of 256 in halves of 128 or in quarters of
 * 64. Products and sums are rounded to f32 in the order that the gguf package computes them. */
#include "checkpoint/gguf_types.h"
#include "util/num.h"
#include <stdio.h>
#include <string.h>

enum { SMALL = 32, LARGE = 256 };

static float half_at(const uint8_t *p)
{
    float x;
    dtype_widen(&x, p, DTYPE_F16, 1);
    return x;
}

/* --- 32 elements --- */

/* The i-th of 32 codes: the lower nibbles of 16 bytes, then the upper ones. */
static int nibble(const uint8_t *p, int i)
{
    return i < SMALL / 2 ? p[i] & 15 : p[i - SMALL / 2] >> 4;
}

/* Bit i of the bytes, as a fifth bit of a code. */
static int fifth(const uint8_t *p, int i)
{
    return (p[i / 8] >> i % 8 & 1) << 4;
}

static void dequantize_q4_0(float *y, const uint8_t *p)
{
    const float scale = half_at(p);
    for (int i = 0; i < SMALL; i++) y[i] = scale * (float)(nibble(p + 2, i) - 8);
}

static void dequantize_q4_1(float *y, const uint8_t *p)
{
    const float scale = half_at(p), least = half_at(p + 2);
    for (int i = 0; i < SMALL; i++) y[i] = scale * (float)nibble(p + 4, i) + least;
}

static void dequantize_q5_0(float *y, const uint8_t *p)
{
    const float scale = half_at(p);
    for (int i = 0; i < SMALL; i++)
        y[i] = scale * (float)((nibble(p + 6, i) | fifth(p + 2, i)) - 16);
}

static void dequantize_q5_1(float *y, const uint8_t *p)
{
    const float scale = half_at(p), least = half_at(p + 2);
    for (int i = 0; i < SMALL; i++)
        y[i] = scale * (float)(nibble(p + 8, i) | fifth(p + 4, i)) + least;
}

static void dequantize_q8_0(float *y, const uint8_t *p)
{
    const float scale = half_at(p);
    for (int i = 0; i < SMALL; i++) y[i] = scale * (float)(int8_t)p[2 + i];
}

/* The 16 values of IQ4's codes. */
static const int8_t iq4_values[] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                    1,    13,   25,  38,  53,  69,  89,  113};

static void dequantize_iq4_nl(float *y, const uint8_t *p)
{
    const float scale = half_at(p);
    for (int i = 0; i < SMALL; i++) y[i] = scale * (float)iq4_values[nibble(p + 2, i)];
}

/* --- 256 elements --- */

/* Two bits of element i: byte l of a half's 32 holds elements l, 32 + l, 64 + l, 96 + l. */
static int two_bits(const uint8_t *p, int i)
{
    return p[i / 128 * 32 + i % 32] >> i % 128 / 32 * 2 & 3;
}

/* Four bits: byte l of a quarter's 32 holds elements l and 32 + l. */
static int four_bits(const uint8_t *p, int i)
{
    return p[i / 64 * 32 + i % 32] >> i % 64 / 32 * 4 & 15;
}

/* One bit: byte l of 32 holds elements l, 32 + l, ... */
static int one_bit(const uint8_t *p, int i)
{
    return p[i % 32] >> i / 32 & 1;
}

static void dequantize_q2_k(float *y, const uint8_t *p)
{
    const uint8_t *scales = p, *codes = p + 16;
    const float scale = half_at(p + 80), offset = half_at(p + 82);
    for (int i = 0; i < LARGE; i++) {
        const int both = scales[i / 16];
        y[i] = scale * (float)(both & 15) * (float)two_bits(codes, i) - offset * (float)(both >> 4);
    }
}

/* 16 scales of 6 bits: 8 bytes of lower nibbles, 4 bytes of upper pairs of bits. */
static int scale_q3_k(const uint8_t *p, int i)
{
    const int low = i < 8 ? p[i] & 15 : p[i - 8] >> 4;
    return (low | (p[8 + i % 4] >> i / 4 * 2 & 3) << 4) - 32;
}

static void dequantize_q3_k(float *y, const uint8_t *p)
{
    const uint8_t *high = p, *codes = p + 32, *scales = p + 96;
    const float scale = half_at(p + 108);
    for (int i = 0; i < LARGE; i++) {
        const int q = two_bits(codes, i) - (one_bit(high, i) ? 0 : 4);
        y[i] = scale * (float)scale_q3_k(scales, i / 16) * (float)q;
    }
}

/* 8 scales and 8 offsets of 6 bits in 12 bytes: those of the last four groups have their upper two
 * bits in the bytes of the first four. which: 0 a scale, 1 an offset. */
static int six_bits(const uint8_t *p, int i, int which)
{
    if (i < 4) return p[4 * which + i] & 63;
    return (p[8 + i - 4] >> 4 * which & 15) | (p[4 * which + i - 4] >> 6) << 4;
}

static void dequantize_q4_k(float *y, const uint8_t *p)
{
    const uint8_t *scales = p + 4, *codes = p + 16;
    const float scale = half_at(p), offset = half_at(p + 2);
    for (int i = 0; i < LARGE; i++)
        y[i] = scale * (float)six_bits(scales, i / 32, 0) * (float)four_bits(codes, i) -
               offset * (float)six_bits(scales, i / 32, 1);
}

static void dequantize_q5_k(float *y, const uint8_t *p)
{
    const uint8_t *scales = p + 4, *high = p + 16, *codes = p + 48;
    const float scale = half_at(p), offset = half_at(p + 2);
    for (int i = 0; i < LARGE; i++) {
        const int q = four_bits(codes, i) | one_bit(high, i) << 4;
        y[i] = scale * (float)six_bits(scales, i / 32, 0) * (float)q -
               offset * (float)six_bits(scales, i / 32, 1);
    }
}

static void dequantize_q6_k(float *y, const uint8_t *p)
{
    const uint8_t *low = p, *high = p + 128, *scales = p + 192;
    const float scale = half_at(p + 208);
    for (int i = 0; i < LARGE; i++) {
        const int four = low[i / 128 * 64 + i % 64] >> i % 128 / 64 * 4 & 15;
        const int q = (four | two_bits(high, i) << 4) - 32;
        y[i] = scale * (float)(int8_t)scales[i / 16] * (float)q;
    }
}

static void dequantize_iq4_xs(float *y, const uint8_t *p)
{
    const uint8_t *low = p + 4, *codes = p + 8;
    const int high = p[2] | p[3] << 8;
    for (int g = 0; g < LARGE / SMALL; g++) {
        const int six = (low[g / 2] >> g % 2 * 4 & 15) | (high >> 2 * g & 3) << 4;
        const float scale = half_at(p) * (float)(six - 32);
        for (int i = 0; i < SMALL; i++)
            y[SMALL * g + i] = scale * (float)iq4_values[nibble(codes + SMALL / 2 * g, i)];
    }
}

/* --- the table --- */

static const struct gguf_type types[] = {
    {0, "F32", 1, 4, NULL, DTYPE_F32},
    {1, "F16", 1, 2, NULL, DTYPE_F16},
    {30, "BF16", 1, 2, NULL, DTYPE_BF16},
    {2, "Q4_0", SMALL, 18, dequantize_q4_0, DTYPE_N},
    {3, "Q4_1", SMALL, 20, dequantize_q4_1, DTYPE_N},
    {6, "Q5_0", SMALL, 22, dequantize_q5_0, DTYPE_N},
    {7, "Q5_1", SMALL, 24, dequantize_q5_1, DTYPE_N},
    {8, "Q8_0", SMALL, 34, dequantize_q8_0, DTYPE_N},
    {10, "Q2_K", LARGE, 84, dequantize_q2_k, DTYPE_N},
    {11, "Q3_K", LARGE, 110, dequantize_q3_k, DTYPE_N},
    {12, "Q4_K", LARGE, 144, dequantize_q4_k, DTYPE_N},
    {13, "Q5_K", LARGE, 176, dequantize_q5_k, DTYPE_N},
    {14, "Q6_K", LARGE, 210, dequantize_q6_k, DTYPE_N},
    {20, "IQ4_NL", SMALL, 18, dequantize_iq4_nl, DTYPE_N},
    {23, "IQ4_XS", LARGE, 136, dequantize_iq4_xs, DTYPE_N},
};
enum { TYPES = sizeof types / sizeof *types };

const struct gguf_type *gguf_type_find(uint32_t id)
{
    for (int i = 0; i < TYPES; i++)
        if (types[i].id == id) return &types[i];
    return NULL;
}

void gguf_type_list(char *text, int64_t size)
{
    text[0] = '\0';
    for (int i = 0; i < TYPES; i++) {
        const size_t used = strlen(text);
        snprintf(text + used, (size_t)size - used, "%s%s", i ? ", " : "", types[i].name);
    }
}

void gguf_dequantize(const struct gguf_type *t, const void *p, int64_t first, int64_t n, float *y)
{
    float block[LARGE];
    const uint8_t *at = (const uint8_t *)p + gguf_bytes(t, first);
    if (!t->dequantize) {
        dtype_widen(y, at, t->plain, n);
        return;
    }
    for (int64_t i = 0, skip = first % t->elements, count; i < n; i += count, skip = 0) {
        count = min64(t->elements - skip, n - i);
        t->dequantize(block, at);
        memcpy(y + i, block + skip, (size_t)count * sizeof *y);
        at += t->bytes;
    }
}

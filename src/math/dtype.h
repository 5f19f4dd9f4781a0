/* dtype: the element types of stored tensors, and their conversion to and from f32. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum dtype {
    DTYPE_F64,
    DTYPE_F32,
    DTYPE_F16,
    DTYPE_BF16,
    DTYPE_I64,
    DTYPE_I32,
    DTYPE_I16,
    DTYPE_I8,
    DTYPE_U8,
    DTYPE_BOOL,
    DTYPE_N
};

/* Bytes per element; 0 for an unknown type. */
size_t dtype_size(enum dtype t);
/* Name as in safetensors headers, "BF16"; "unknown" for an unknown type. Static string. */
const char *dtype_name(enum dtype t);
/* The type of that name; DTYPE_N: there is none. */
enum dtype dtype_find(const char *name);
/* Whether it is a floating-point type. */
bool dtype_is_float(enum dtype t);

/* dst (n) = src, n little-endian elements of a floating-point type at any alignment. Exact for F32,
 * F16 and BF16, with subnormals, infinities and NaN; F64 rounds to nearest even. Other types give
 * NaN. src and dst must not overlap. */
void dtype_widen(float *dst, const void *src, enum dtype t, int64_t n);

/* x rounded to f16, ties to even, as an f32; infinity from 65520 on; subnormals are exact. */
float dtype_round_f16(float x);

/* dst (n), at any alignment = src rounded once to a floating-point type, ties to even; overflow
 * becomes infinity, NaN stays NaN. Nothing for other types. dtype_widen of the result is exact but
 * for F64. */
void dtype_narrow(void *dst, const double *src, enum dtype t, int64_t n);

/* dtype: the element types of stored tensors, and their exact widening to f32. */
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

/* Bytes of an element. */
size_t dtype_size(enum dtype t);
/* Name as in safetensors headers: "BF16". */
const char *dtype_name(enum dtype t);
/* The type of that name, DTYPE_N if there is none. */
enum dtype dtype_find(const char *name);
bool dtype_is_float(enum dtype t);

/* dst (n) = src (n elements of a floating type, any alignment, little endian). Exact for F32, F16,
 * BF16 (subnormals, infinities and NaN included); F64 rounds to nearest even. src and dst may not
 * overlap. */
void dtype_widen(float *dst, const void *src, enum dtype t, int64_t n);

/* The nearest f16, ties to even, as an f32: infinity from 65520 on, subnormals kept. */
float dtype_round_f16(float x);

/* dst (n) = src rounded to bf16, half to even; overflow becomes infinity, NaN stays NaN. */
void dtype_narrow_bf16(uint16_t *dst, const float *src, int64_t n);

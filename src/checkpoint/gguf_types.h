/* gguf_types: how GGUF files store elements: in blocks of codes with scales. Source: the layouts
 * that ggml's `block_*` structs define; the gguf package of PyPI gives the same numbers
 * (tests/fixtures/gguf/make.py). */
#pragma once
#include "math/dtype.h"

struct gguf_type {
    uint32_t id; /* in the file */
    const char *name;
    int64_t elements, bytes; /* of a block */
    /* y (elements) = the block at p, at any alignment; NULL: elements of type `plain`. */
    void (*dequantize)(float *y, const uint8_t *p);
    enum dtype plain;
};

/* The type of that number; NULL: it is not read. */
const struct gguf_type *gguf_type_find(uint32_t id);
/* The names of all types, "F32, F16, ...". */
void gguf_type_list(char *text, int64_t size);
/* Bytes of n elements, whole blocks. */
static inline int64_t gguf_bytes(const struct gguf_type *t, int64_t n)
{
    return n / t->elements * t->bytes;
}
/* y (n) = elements [first, first + n) of the blocks at p. */
void gguf_dequantize(const struct gguf_type *t, const void *p, int64_t first, int64_t n, float *y);

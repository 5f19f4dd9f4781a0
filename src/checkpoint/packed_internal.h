/* packed_internal: what the reader and the writer of packed linears share. */
#pragma once
#include "checkpoint/packed.h"

/* Bits of a word, rows of one of AutoAWQ's words, largest width. */
enum { PACKED_WORD = 32, PACKED_AWQ_ROWS = 8, PACKED_BITS_MAX = 8 };

/* Endings of the tensors of a linear, by format. */
struct packed_endings {
    const char *codes, *zeros, *scales, *groups, *size; /* NULL: there is none */
};
const struct packed_endings *packed_endings_of(enum packed_format format);

/* Shapes of the tensors; zero for what is not there. */
struct packed_shapes {
    int64_t codes[2], zeros[2], scales[2];
};
struct packed_shapes packed_shapes_of(const struct packed_layout *l, int64_t rows, int64_t cols);

/* Words that hold a stream of codes. */
static inline int64_t packed_words(int64_t codes, int64_t bits)
{
    return (codes * bits + PACKED_WORD - 1) / PACKED_WORD;
}

/* The place in AutoAWQ's word of the row that comes i-th, in nibbles. */
static inline int64_t packed_awq_nibble(int64_t i)
{
    return i % 2 * (PACKED_AWQ_ROWS / 2) + i / 2;
}

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

/* Where a code or zero is: from bit `shift` of word `at` on; what that has no room for is in the
 * lowest bits of word `at + pitch`. */
struct packed_place {
    int64_t at, pitch, shift;
};
/* The i-th of a stream of codes whose words are `pitch` apart. */
static inline struct packed_place packed_in_stream(const struct packed_layout *l, int64_t first,
                                                   int64_t pitch, int64_t i)
{
    const int64_t bit = i * l->bits;
    return (struct packed_place){first + bit / PACKED_WORD * pitch, pitch, bit % PACKED_WORD};
}
/* The nibble of the i-th row in AutoAWQ's words. */
static inline struct packed_place packed_in_awq(int64_t first, int64_t i)
{
    const int64_t k = i % PACKED_AWQ_ROWS, nibble = k % 2 * (PACKED_AWQ_ROWS / 2) + k / 2;
    return (struct packed_place){first + i / PACKED_AWQ_ROWS, 0, 4 * nibble};
}
static inline struct packed_place packed_code_place(const struct packed_layout *l, int64_t rows,
                                                    int64_t cols, int64_t row, int64_t col)
{
    if (l->format == PACKED_AWQ) return packed_in_awq(col * (rows / PACKED_AWQ_ROWS), row);
    if (l->format == PACKED_COMPRESSED)
        return packed_in_stream(l, row * packed_words(cols, l->bits), 1, col);
    return packed_in_stream(l, row, rows, col);
}
static inline struct packed_place packed_zero_place(const struct packed_layout *l, int64_t rows,
                                                    int64_t groups, int64_t row, int64_t group)
{
    if (l->format == PACKED_AWQ) return packed_in_awq(group * (rows / PACKED_AWQ_ROWS), row);
    if (l->format == PACKED_COMPRESSED) return packed_in_stream(l, group, groups, row);
    return packed_in_stream(l, group * packed_words(rows, l->bits), 1, row);
}

/* sequences: token sequences of unequal lengths, stored one after the other. Their hidden states
 * are (tokens, channels) arrays with the same offsets. */
#pragma once
#include "util/err.h"

/* Consecutive tokens of a sequence that attend to the tokens of the segment `parent`, to what those
 * attend to, and to themselves up to each: several texts share a beginning this way, and several
 * texts without one share a sequence. */
struct segment {
    int64_t row;    /* its first token in the sequence; it ends where the next one starts */
    int64_t pos;    /* position of that token */
    int64_t parent; /* an earlier segment of the sequence, counted from its first; -1: none */
};

struct sequences {
    int64_t n;
    int64_t *offset; // (n+1) first token of each sequence; offset[n] = number of tokens
    int32_t *ids;    // (offset[n])
    int32_t *bytes;  // (offset[n]) bytes of text per token; NULL: unknown
    int64_t *valid; /* (n) leading tokens of each that are real, at least one; the rest are padding,
                       which no token attends to. NULL: no padding */
    struct segment *segments; /* of all sequences, the first of each at row 0; NULL: every sequence
                                is one text, as are those without segments */
    int64_t *first_segment;   // (n+1) with segments: the first one of each sequence
};

/* Allocates n sequences of `tokens` tokens in total, all zero, without padding and segments;
 * with_bytes: bytes too. Free with sequences_free. ERR_NOMEM. */
MUST_USE enum status sequences_init(struct sequences *s, int64_t n, int64_t tokens, int with_bytes,
                                    struct err *e);
void sequences_free(struct sequences *s);
/* Sequence k of s, which follows those before it = the first `length` tokens of sequence i of
 * `from`, with their bytes if both have them. */
void sequences_put(struct sequences *s, int64_t k, const struct sequences *from, int64_t i,
                   int64_t length);
/* Segments of sequence i. */
static inline int64_t sequences_segments(const struct sequences *s, int64_t i)
{
    return s->segments ? s->first_segment[i + 1] - s->first_segment[i] : 0;
}
/* Tokens of the longest sequence; 0: there is none. */
int64_t sequences_longest(const struct sequences *s);
/* *out (the caller frees with sequences_free, also after a failure) = the sequences of n parts,
 * then those of the tasks (`more`, with segments; NULL: none). Bytes are retained only if every
 * part has them. first (n + 1, of which the first is 0) = the first sequence of each part.
 * ERR_NOMEM. */
MUST_USE enum status sequences_join(const struct sequences *parts, int64_t n,
                                    const struct sequences *more, struct sequences *out,
                                    int64_t *first, struct err *e);

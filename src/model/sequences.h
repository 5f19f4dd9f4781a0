/* sequences: token sequences of unequal lengths, stored one after the other. Their hidden states
 * are (tokens, channels) arrays with the same offsets. */
#pragma once
#include "util/err.h"

struct sequences {
    int64_t n;
    int64_t *offset; // (n+1) first token of each sequence; offset[n] = number of tokens
    int32_t *ids;    // (offset[n])
    int32_t *bytes;  // (offset[n]) bytes of text per token; NULL: unknown
    int64_t *valid; /* (n) leading tokens of each that are real, at least one; the rest are padding,
                       which no token attends to. NULL: no padding */
};

/* Allocates n sequences of `tokens` tokens in total, all zero, valid NULL; with_bytes: bytes too.
 * Free with sequences_free. ERR_NOMEM. */
MUST_USE enum status sequences_init(struct sequences *s, int64_t n, int64_t tokens, int with_bytes,
                                    struct err *e);
void sequences_free(struct sequences *s);
/* Tokens of the longest sequence; 0: there is none. */
int64_t sequences_longest(const struct sequences *s);

/* sequences: token sequences of unequal length, one behind the other. Hidden states that belong to
 * them are (tokens, channels) arrays with the same offsets. */
#pragma once
#include "util/err.h"
#include <stdint.h>

struct sequences {
    int64_t n;
    int64_t *offset; // (n+1) first token of each sequence; offset[n] = all tokens
    int32_t *ids;    // (offset[n])
    int32_t *bytes;  // (offset[n]) bytes of text that each token stands for; NULL: not known
    int64_t *valid;  /* (n) tokens of each that are real, at least one; those behind them fill it up
                        and nobody attends to them. NULL: all are */
};

/* Room for n sequences and `tokens` tokens, zeroed; with_bytes: the bytes array too. ERR_NOMEM. */
MUST_USE enum status sequences_init(struct sequences *s, int64_t n, int64_t tokens, int with_bytes,
                                    struct err *e);
void sequences_free(struct sequences *s);
/* Tokens of the longest. */
int64_t sequences_longest(const struct sequences *s);

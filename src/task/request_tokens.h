/* request_tokens: the token ids of the requests of one item. */
#pragma once
#include "task/encode.h"
#include "task/prompts.h"

/* One choice. */
struct pair {
    int32_t *context, *continuation; /* context: NULL if it is that of the first choice */
    int64_t n_context, n_continuation;
    int64_t chars; /* of the choice */
};
struct item_tokens {
    int64_t n, gold;
    struct pair *pairs; // (n)
};
void item_tokens_free(struct item_tokens *x);

/* *out (n, of which the caller frees each with item_tokens_free, and the array) = the tokens of all
 * items of p. Parallel inside. ERR_FORMAT with file and line: a row, or a continuation that has no
 * tokens or more than `positions`; ERR_NOMEM, errors of tokenizer_encode. */
MUST_USE enum status item_tokens_make(const struct prompts *p, const struct encoder *x,
                                      int64_t positions, struct item_tokens **out, struct err *e);

/* encode: the token ids of a context and of what follows it, as the harness's model for
 * transformers makes them. */
#pragma once
#include "task/pytext.h"
#include "tokenizer/tokenizer.h"

struct encoder {
    const struct tokenizer *tokenizer; /* borrowed */
    int32_t prefix; /* stands for an empty context: BOS, or else end of text; -1: none is known */
};

/* ERR_FORMAT: a file beside the tokenizer; ERR_IO, ERR_NOMEM. */
MUST_USE enum status encoder_init(struct encoder *x, const struct tokenizer *t, struct err *e);

/* *ids (*n; the caller frees) = the tokens of a context: without the white space at its end, and
 * with the tokens that the post-processor adds unless the text begins with the first of them.
 * Errors of tokenizer_encode; ERR_USAGE: it is empty and there is no prefix. Thread-safe, as is the
 * next function. */
MUST_USE enum status encode_context(const struct encoder *x, struct text context, int32_t **ids,
                                    int64_t *n, struct err *e);

/* *ids (*n; the caller frees) = the tokens of a continuation: those of both texts together behind
 * the n_context tokens of the context alone. ERR_FORMAT: none are left, or the context has none;
 * ERR_NOMEM, errors of tokenizer_encode. */
MUST_USE enum status encode_continuation(const struct encoder *x, struct text context,
                                         int64_t n_context, struct text continuation, int32_t **ids,
                                         int64_t *n, struct err *e);

/* decode: the decoders of a tokenizer.json: steps that rewrite a list of token strings. */
#pragma once
#include "tokenizer/buf.h"
#include "tokenizer/bytelevel.h"
#include "tokenizer/component.h"

struct decoder {
    bool present; /* without a decoder, tokens are joined by spaces */
    struct steps steps;
    struct bytelevel alphabet;
};

/* Reads "decoder"; value may be NULL or null. Zero-initialise d; steps_free(&d->steps) whatever is
 * returned. ERR_FORMAT; ERR_USAGE: one that is not supported, by name; ERR_NOMEM. */
MUST_USE enum status decoder_read(struct decoder *d, const json_t *value, struct err *e);

/* A list of strings: string i is text.data[end[i - 1] .. end[i]). Zero-initialise. */
struct strings {
    struct buf text;
    size_t *end;
    int64_t n, cap;
};
/* Appends a string of n bytes. ERR_NOMEM. */
MUST_USE enum status strings_add(struct strings *l, const char *s, size_t n, struct err *e);
void strings_free(struct strings *l);

/* Replaces *tokens (may be empty) by the decoded strings, whose concatenation is the text.
 * ERR_NOMEM. */
MUST_USE enum status decoder_apply(const struct decoder *d, struct strings *tokens, struct err *e);

/* *bytes = how many bytes of text the token s (n bytes) stands for: the length of what it decodes
 * to in the middle of a text, before invalid UTF-8 is replaced. ERR_NOMEM. */
MUST_USE enum status decoder_token_bytes(const struct decoder *d, const char *s, size_t n,
                                         int32_t *bytes, struct err *e);

/* decode: the decoders of a tokenizer.json, a list of steps over a list of token strings. */
#pragma once
#include "tokenizer/buf.h"
#include "tokenizer/bytelevel.h"
#include "util/json.h"

struct decoder {
    bool present; /* without a decoder, tokens are joined with spaces */
    struct decoder_step *step;
    int64_t n, cap;
    double growth; /* times longer that the steps may make a text */
    struct bytelevel alphabet;
};

/* value may be NULL or null. ERR_FORMAT, ERR_USAGE (an unsupported one, by name), ERR_NOMEM. */
MUST_USE enum status decoder_read(struct decoder *d, const json_t *value, struct err *e);
void decoder_free(struct decoder *d);

/* Strings in a row: string i is text.data[end[i - 1] .. end[i]). */
struct strings {
    struct buf text;
    size_t *end;
    int64_t n, cap;
};
MUST_USE enum status strings_add(struct strings *l, const char *s, size_t n, struct err *e);
void strings_free(struct strings *l);

/* *tokens (n > 0 or not) becomes the decoded strings, to be read one after the other. ERR_NOMEM. */
MUST_USE enum status decoder_apply(const struct decoder *d, struct strings *tokens, struct err *e);

/* Bytes of original text behind one token string: what it decodes to in the middle of a text,
 * before invalid UTF-8 is replaced. ERR_NOMEM. */
MUST_USE enum status decoder_token_bytes(const struct decoder *d, const char *s, size_t n,
                                         int32_t *bytes, struct err *e);

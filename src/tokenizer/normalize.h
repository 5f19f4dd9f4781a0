/* normalize: the normalizers of a tokenizer.json: steps that rewrite well-formed UTF-8. */
#pragma once
#include "tokenizer/buf.h"
#include "util/json.h"

struct normalizer {
    struct normalizer_step *step;
    int64_t n, cap; /* 0 steps: the text stays unchanged */
    double growth;  /* times longer that the steps may make a text */
};

/* Reads "normalizer"; value may be NULL or null. Zero-initialise z; normalizer_free whatever is
 * returned. ERR_FORMAT; ERR_USAGE: one that is not supported, by name; ERR_NOMEM. */
MUST_USE enum status normalizer_read(struct normalizer *z, const json_t *value, struct err *e);
void normalizer_free(struct normalizer *z);

/* *out = the normalised text (n bytes of s), in place of what out had; spare is scratch. ERR_NOMEM.
 */
MUST_USE enum status normalizer_apply(const struct normalizer *z, const char *s, size_t n,
                                      struct buf *out, struct buf *spare, struct err *e);

/* normalize: the normalizers of a tokenizer.json: steps that rewrite well-formed UTF-8. */
#pragma once
#include "tokenizer/buf.h"
#include "tokenizer/component.h"

/* Reads "normalizer"; value may be NULL or null (no steps: the text stays unchanged). steps_free
 * whatever is returned. ERR_FORMAT; ERR_USAGE: one that is not supported, by name; ERR_NOMEM. */
MUST_USE enum status normalizer_read(struct steps *z, const json_t *value, struct err *e);

/* *out = the normalised text (n bytes of s), in place of what out had; spare is scratch. ERR_NOMEM.
 */
MUST_USE enum status normalizer_apply(const struct steps *z, const char *s, size_t n,
                                      struct buf *out, struct buf *spare, struct err *e);

/* normalize: the normalizers of a tokenizer.json, a list of steps over well-formed UTF-8. */
#pragma once
#include "tokenizer/buf.h"
#include "util/json.h"

struct normalizer {
    struct normalizer_step *step;
    int64_t n, cap; /* no steps: the text is left as it is */
    double growth;  /* times longer that they may make it */
};

/* value may be NULL or null. ERR_FORMAT, ERR_USAGE (an unsupported one, by name), ERR_NOMEM. */
MUST_USE enum status normalizer_read(struct normalizer *z, const json_t *value, struct err *e);
void normalizer_free(struct normalizer *z);

/* *out (replaced) = the text normalised; spare is scratch. ERR_NOMEM. */
MUST_USE enum status normalizer_apply(const struct normalizer *z, const char *s, size_t n,
                                      struct buf *out, struct buf *spare, struct err *e);

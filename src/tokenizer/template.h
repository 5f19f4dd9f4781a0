/* template: the ids that the post-processors of a tokenizer.json put around a text. */
#pragma once
#include "tokenizer/buf.h"
#include "util/json.h"

struct template
{
    struct ids before, after;
    int64_t n_ids; /* ids are smaller */
};

/* Reads "post_processor"; value may be NULL or null. n_ids: what the ids must be smaller than.
 * Zero-initialise t; template_free whatever is returned. ERR_FORMAT; ERR_USAGE: a component that is
 * not supported, by name; ERR_NOMEM. */
MUST_USE enum status template_read(struct template *t, const json_t *value, int64_t n_ids,
                                   struct err *e);
void template_free(struct template *t);

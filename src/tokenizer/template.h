/* template: the ids that post-processors put around a text. */
#pragma once
#include "tokenizer/buf.h"
#include "util/json.h"

struct template
{
    struct ids before, after;
};

/* value may be NULL or null. n_ids bounds the ids. ERR_FORMAT, ERR_USAGE (an unsupported one, by
 * name), ERR_NOMEM. */
MUST_USE enum status template_read(struct template *t, const json_t *value, int64_t n_ids,
                                   struct err *e);
void template_free(struct template *t);

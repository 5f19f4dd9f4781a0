/* eval_reference: compares the next-token distributions of a checkpoint with those of another one,
 * its reference, on the same tokens: what a cell of a sweep says of a quantized model. */
#pragma once
#include "model/model.h"
#include "util/json.h"

/* The reference's final hidden states, which stay in memory. Zero-initialise. */
struct eval_reference {
    const char *dir; /* its folder or file; borrowed */
    int64_t tokens, hidden, vocab;
    int32_t *ids;    // (tokens)
    float *x;        // (tokens, hidden)
    json_t *numbers; /* the metrics of a cell (metric.h), after eval_reference_compare */
};
/* A hook of the reference's visit (part.h, `hidden`): keeps them. ERR_NOMEM. */
MUST_USE enum status eval_reference_keep(struct eval_reference *r, const struct model *m,
                                         const struct sequences *s, const float *x, struct err *e);
/* A hook of the other checkpoint's visit: sets r->numbers. ERR_SHAPE: it has another vocabulary or
 * size, or other tokens; errors of model_open for the reference; ERR_NOMEM. */
MUST_USE enum status eval_reference_compare(struct eval_reference *r, const struct model *m,
                                            const struct sequences *s, const float *x,
                                            struct err *e);
void eval_reference_free(struct eval_reference *r);

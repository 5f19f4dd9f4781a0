/* collect: documents' ids become sequences, as layout and limits of the data options say. */
#pragma once
#include "config/sweep.h"
#include "model/sequences.h"
#include "tokenizer/buf.h"
#include "tokenizer/tokenizer.h"

/* Inside, a token that is no part of any text (BOS, a separator) stands as ~id: it has no bytes. */
struct collector {
    const struct data_options *options;
    struct ids before, behind; /* put around each document */
    int64_t separators;        /* of those behind it */
    struct ids ids;            /* of all sequences kept */
    int64_t *offset;           /* (n) where each of them starts */
    int64_t n, capacity;
    struct ids part; /* the block in the making (packed) */
    int64_t skipped; /* sequences left out at the start */
    int64_t dropped; /* documents left out because they are short */
    int64_t all;     /* tokens of all documents so far */
    bool full;       /* the limits are reached: nothing more is taken */
};

void collector_init(struct collector *c, const struct data_options *options);
void collector_free(struct collector *c);

/* For texts: looks up what the options put around each document. ERR_USAGE when the tokenizer has
 * no such token, ERR_FORMAT, ERR_NOMEM. */
MUST_USE enum status collector_frame(struct collector *c, const struct tokenizer *t, struct err *e);

/* One whole document. ERR_NOMEM. */
MUST_USE enum status collector_add(struct collector *c, const int32_t *ids, int64_t n,
                                   struct err *e);

/* One finished sequence, whatever the layout. ERR_NOMEM. */
MUST_USE enum status collector_add_sequence(struct collector *c, const int32_t *ids, int64_t n,
                                            struct err *e);

/* The sequences kept; their bytes by the tokenizer, when there is one. ERR_NOMEM. */
MUST_USE enum status collector_finish(const struct collector *c, const struct tokenizer *t,
                                      struct sequences *out, struct err *e);

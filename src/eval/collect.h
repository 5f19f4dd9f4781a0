/* collect: makes sequences from token ids of documents, as the data options say. */
#pragma once
#include "config/sweep.h"
#include "model/sequences.h"
#include "tokenizer/buf.h"
#include "tokenizer/tokenizer.h"

/* A token that is not text (BOS, a separator) is stored here as ~id and counts no bytes. */
struct collector {
    const struct data_options *options; /* borrowed */
    struct ids before, behind;          /* tokens put around each document */
    int64_t separators;                 /* of those in `behind` */
    struct ids ids;                     /* of all sequences so far */
    int64_t *offset;                    /* (n) where each of them starts in ids */
    int64_t n, capacity;
    struct ids part; /* packed: the incomplete block; data_options_even: all tokens */
    int64_t skipped; /* sequences left out at the start (options->skip) */
    int64_t dropped; /* documents left out because they are too short */
    int64_t all;     /* tokens of all documents so far */
    bool full;       /* a limit is reached: further sequences are ignored */
};

/* Frees what a collector holds, which starts with its options alone set. */
void collector_free(struct collector *c);

/* For texts: looks up the tokens that the options put around each document. ERR_USAGE when the
 * tokenizer does not have one of them; ERR_FORMAT (files beside the tokenizer), ERR_NOMEM. */
MUST_USE enum status collector_frame(struct collector *c, const struct tokenizer *t, struct err *e);

/* Adds one whole document of n ids. ERR_NOMEM. */
MUST_USE enum status collector_add(struct collector *c, const int32_t *ids, int64_t n,
                                   struct err *e);

/* Call after the last document: makes the blocks of equal length (data_options_even). ERR_NOMEM. */
MUST_USE enum status collector_end(struct collector *c, struct err *e);

/* Adds one finished sequence of n ids, whatever the layout. ERR_NOMEM. */
MUST_USE enum status collector_add_sequence(struct collector *c, const int32_t *ids, int64_t n,
                                            struct err *e);

/* *out (the caller frees) = the sequences; with the bytes of their tokens if t is not NULL.
 * ERR_NOMEM. */
MUST_USE enum status collector_finish(const struct collector *c, const struct tokenizer *t,
                                      struct sequences *out, struct err *e);

/* pretok: the pre-tokenizers of a tokenizer.json, which cut a text into the words that BPE encodes.
 * All of them are built from two kinds of step: split, and Metaspace, which also puts a space in
 * front. */
#pragma once
#include "tokenizer/buf.h"
#include "tokenizer/pattern.h"
#include "util/json.h"

enum { PRETOK_MAX_STEPS = 16 };

struct pretok {
    struct pretok_step *step;
    int64_t n, cap;
    bool byte_level; /* ByteLevel: tokens are in GPT-2's alphabet; words stay plain bytes */
};

/* Reads "pre_tokenizer"; value may be NULL or null. Zero-initialise p; pretok_free whatever is
 * returned. ERR_FORMAT; ERR_USAGE: one that is not supported, by name; ERR_NOMEM. */
MUST_USE enum status pretok_read(struct pretok *p, const json_t *value, struct err *e);
void pretok_free(struct pretok *p);

/* State of one thread. Zero-initialise, set the first three members (borrowed), free at the end. */
struct pretok_run {
    struct pattern_work *work;
    enum status (*word)(void *context, const char *s, size_t n, struct err *e); /* n > 0 */
    void *context;
    struct buf text[PRETOK_MAX_STEPS]; /* output of each step that changes the text */
};
void pretok_run_free(struct pretok_run *run);

/* Calls run->word for every word of s (n bytes of well-formed UTF-8), in order. at_start: s is the
 * start of the whole text. ERR_NUMERIC: the regular expression gave up; ERR_NOMEM; what word
 * returns. */
MUST_USE enum status pretok_cut(const struct pretok *p, struct pretok_run *run, const char *s,
                                size_t n, bool at_start, struct err *e);

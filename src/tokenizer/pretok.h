/* pretok: the pre-tokenizers of a tokenizer.json, which cut the text into the words that BPE works
 * on. All of them are made of three steps: split, put a space in front, Metaspace. */
#pragma once
#include "tokenizer/buf.h"
#include "tokenizer/pattern.h"
#include "util/json.h"

enum { PRETOK_MAX_STEPS = 16 };

struct pretok {
    struct pretok_step *step;
    int64_t n, cap;
    bool byte_level; /* words are bytes in GPT-2's alphabet; they are passed on as plain bytes */
};

/* value may be NULL or null. ERR_FORMAT, ERR_USAGE (an unsupported one, by name), ERR_NOMEM. */
MUST_USE enum status pretok_read(struct pretok *p, const json_t *value, struct err *e);
void pretok_free(struct pretok *p);

/* One thread's state while it cuts. Zero-initialise, set the first three, free afterwards. */
struct pretok_run {
    struct pattern_work *work;
    enum status (*word)(void *context, const char *s, size_t n, struct err *e); /* n > 0 */
    void *context;
    struct buf text[PRETOK_MAX_STEPS]; /* of the steps that change it */
};
void pretok_run_free(struct pretok_run *run);

/* Calls run->word for every word of s (well-formed UTF-8), in order. at_start: s begins the whole
 * text. ERR_NOMEM, ERR_NUMERIC (the regular expression gave up), what word returns. */
MUST_USE enum status pretok_cut(const struct pretok *p, struct pretok_run *run, const char *s,
                                size_t n, bool at_start, struct err *e);

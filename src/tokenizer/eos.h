/* eos: which token ends a text, and which fills up a batch, by the files that lie beside a
 * tokenizer.json. */
#pragma once
#include "util/err.h"
#include <stdint.h>

struct eos {
    char *token;      /* its text; NULL: known by its id */
    int32_t id;       /* -1: known by its text */
    const char *file; /* who says so */
};

/* path: the tokenizer.json. ERR_USAGE when no file names one; ERR_FORMAT for a file that is no JSON
 * object; ERR_NOMEM. */
MUST_USE enum status eos_read(const char *path, struct eos *out, struct err *e);
/* What a config.json says of padding; -1: nothing. */
struct pad_hint {
    int32_t pad, bos, eos;
};
/* Of FOLDER/config.json, nothing if it is not there. ERR_FORMAT, ERR_NOMEM. */
MUST_USE enum status pad_hint_read(const char *folder, struct pad_hint *out, struct err *e);

/* Which token fills up: the hint's (NULL: that of the config.json beside the tokenizer.json) if it
 * is neither that of a text's start nor of its end, else pad_token of tokenizer_config.json or
 * special_tokens_map.json. No token and id -1 when none of them says. ERR_FORMAT, ERR_NOMEM. */
MUST_USE enum status pad_read(const char *path, const struct pad_hint *hint, struct eos *out,
                              struct err *e);
void eos_free(struct eos *x);

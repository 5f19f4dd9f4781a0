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
/* Which token fills up, likewise: pad_token_id of config.json if it is neither bos_token_id nor
 * eos_token_id there, else pad_token of tokenizer_config.json or special_tokens_map.json. No token
 * and id -1 when none of them says. ERR_FORMAT, ERR_NOMEM. */
MUST_USE enum status pad_read(const char *path, struct eos *out, struct err *e);
void eos_free(struct eos *x);

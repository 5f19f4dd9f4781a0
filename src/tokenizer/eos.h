/* eos: which tokens end a text and pad a batch, by the files beside a tokenizer.json. */
#pragma once
#include "util/err.h"

struct eos {
    char *token;      /* its text (owned); NULL: the file gives an id */
    int32_t id;       /* -1: the file gives a text, or there is none */
    const char *file; /* name of the file that says so; static */
};

/* The end-of-text token. path: the tokenizer.json. *out is freed with eos_free. ERR_USAGE when no
 * file names one; ERR_FORMAT for a file that is not a JSON object; ERR_IO, ERR_NOMEM. */
MUST_USE enum status eos_read(const char *path, struct eos *out, struct err *e);

/* Ids of a config.json; -1: it does not give that one. */
struct pad_hint {
    int32_t pad, bos, eos;
};
/* Reads them from FOLDER/config.json; all -1 when there is no such file. ERR_FORMAT, ERR_IO,
 * ERR_NOMEM. */
MUST_USE enum status pad_hint_read(const char *folder, struct pad_hint *out, struct err *e);

/* The padding token: that of the hint (NULL: of the config.json beside the tokenizer.json) unless
 * it also begins or ends texts, else pad_token of tokenizer_config.json or special_tokens_map.json.
 * No token and id -1 when none of them names one. *out is freed with eos_free. ERR_FORMAT, ERR_IO,
 * ERR_NOMEM. */
MUST_USE enum status pad_read(const char *path, const struct pad_hint *hint, struct eos *out,
                              struct err *e);
void eos_free(struct eos *x);

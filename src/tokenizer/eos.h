/* eos: which tokens end a text and pad a batch, by the files beside a tokenizer.json. */
#pragma once
#include "util/hash.h"

struct eos {
    char *token;      /* its text (owned); NULL: the file gives an id */
    int32_t id;       /* -1: the file gives a text, or there is none */
    const char *file; /* name of the file that says so; static */
};

/* Ids of a config.json; -1: it does not give that one. */
struct pad_hint {
    int32_t pad, bos, eos;
};
/* Reads them from FOLDER/config.json; all -1 when there is no such file. ERR_FORMAT, ERR_IO,
 * ERR_NOMEM. */
MUST_USE enum status pad_hint_read(const char *folder, struct pad_hint *out, struct err *e);

/* What the files beside a tokenizer.json name. Zero-initialise. */
struct special {
    struct eos eos, pad;    /* of no text and id -1: none is named */
    struct pad_hint beside; /* of the config.json there */
    char hash[HASH_HEX];    /* of eos and pad: the tokens, not the files */
};
/* path: of the tokenizer.json. ERR_FORMAT for a file that is not a JSON object; ERR_IO, ERR_NOMEM.
 */
MUST_USE enum status special_read(const char *path, struct special *out, struct err *e);
void special_free(struct special *x);

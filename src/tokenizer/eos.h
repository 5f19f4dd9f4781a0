/* eos: which token ends a text, by the files that lie beside a tokenizer.json. */
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
void eos_free(struct eos *x);

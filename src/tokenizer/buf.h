/* buf: a growing string of bytes, and a growing array of ids. Zero-initialised ones are empty. */
#pragma once
#include "util/err.h"
#include <stddef.h>
#include <stdint.h>

struct buf {
    char *data; /* always a NUL behind the n bytes once anything was reserved */
    size_t n, cap;
};

/* Makes room for `more` bytes and a NUL behind what is there. ERR_NOMEM. */
MUST_USE enum status buf_reserve(struct buf *b, size_t more, struct err *e);
MUST_USE enum status buf_add(struct buf *b, const char *text, size_t n, struct err *e);
void buf_free(struct buf *b);

struct ids {
    int32_t *id;
    int64_t n, cap;
};

/* Makes room for `more` ids; the caller may then write id[n], ... and raise n. ERR_NOMEM. */
MUST_USE enum status ids_reserve(struct ids *ids, int64_t more, struct err *e);
MUST_USE enum status ids_add(struct ids *ids, const int32_t *id, int64_t n, struct err *e);

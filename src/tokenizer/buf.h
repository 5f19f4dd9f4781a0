/* buf: a growing string of bytes, and a growing array of ids. Zero-initialised ones are empty; what
 * can fail returns ERR_NOMEM and leaves them as they were. */
#pragma once
#include "util/err.h"

struct buf {
    char *data; /* a NUL follows the n bytes once anything was reserved */
    size_t n, cap;
};

/* Grows the capacity to n + `more` bytes and a NUL. */
MUST_USE enum status buf_reserve(struct buf *b, size_t more, struct err *e);
/* Appends n bytes of text, which do not lie in b. */
MUST_USE enum status buf_add(struct buf *b, const char *text, size_t n, struct err *e);
/* Appends n bytes of text with every `from` (n_from > 0 bytes) replaced by `to`, from the left. */
MUST_USE enum status buf_add_replaced(struct buf *b, const char *text, size_t n, const char *from,
                                      size_t n_from, const char *to, size_t n_to, struct err *e);
/* Frees b's memory and empties it. */
void buf_free(struct buf *b);

/* *out = a copy of n bytes, followed by a NUL; the caller frees. `what` stands in the message. */
MUST_USE enum status bytes_copy(char **out, const char *bytes, size_t n, const char *what,
                                struct err *e);

struct ids {
    int32_t *id;
    int64_t n, cap;
};

/* Grows the capacity to n + `more` ids; the caller may write id[n], ... and raise n. Free with
 * free(id). */
MUST_USE enum status ids_reserve(struct ids *ids, int64_t more, struct err *e);
/* Appends n ids, which do not lie in *ids. */
MUST_USE enum status ids_add(struct ids *ids, const int32_t *id, int64_t n, struct err *e);

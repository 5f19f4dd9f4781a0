/* pytext: what the methods of Python's str do, since the harness makes its prompts with them. All
 * texts are well-formed UTF-8. */
#pragma once
#include "tokenizer/buf.h"

/* A piece of a text, borrowed. */
struct text {
    const char *at;
    size_t n;
};

/* All of a buffer, borrowed. */
static inline struct text text_in(const struct buf *b)
{
    return (struct text){b->data, b->n};
}

/* Whether two texts are equal. */
static inline bool text_is(struct text a, struct text b)
{
    return a.n == b.n && (a.n == 0 || __builtin_memcmp(a.at, b.at, a.n) == 0);
}

/* Without white space (str.isspace) at the start, at the end, at both. */
struct text pytext_lstrip(struct text t);
struct text pytext_rstrip(struct text t);
struct text pytext_strip(struct text t);

/* Number of code points, as len() counts. */
int64_t pytext_length(struct text t);

/* Appends t.capitalize(): the first character in title case, the others in lower case. ERR_NOMEM.
 */
MUST_USE enum status pytext_capitalize(struct text t, struct buf *out, struct err *e);

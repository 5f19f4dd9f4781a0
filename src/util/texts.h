/* texts: a growing list of texts, in the order in which they came. */
#pragma once
#include "util/err.h"

/* Zero-initialise. */
struct texts {
    int64_t n, capacity;
    char **text; // (n + 1) owned, NULL after the last; NULL: there are none
};
void texts_free(struct texts *t);

/* The texts, NULL after the last; NULL: there are none. Borrowed. */
static inline const char *const *texts_list(const struct texts *t)
{
    return (const char *const *)t->text;
}
/* Whether the text is there. */
bool texts_have(const struct texts *t, const char *text);
/* Adds a copy of the text; texts_add: unless it is there. ERR_NOMEM. */
MUST_USE enum status texts_append(struct texts *t, const char *text, struct err *e);
MUST_USE enum status texts_add(struct texts *t, const char *text, struct err *e);

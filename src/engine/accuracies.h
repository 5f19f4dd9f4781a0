/* accuracies: the records of accuracies that a visit is asked for, of its checkpoint or a variant,
 * as a text: a line "TASK KEY" for each, with line ends between. Likewise those of measures of
 * cells, as lines "MEASURE KEY". */
#pragma once
#include "util/hash.h"

enum { ACCURACY_NAME = 64 };
struct accuracy_wanted {
    char task[ACCURACY_NAME], key[HASH_HEX];
};

/* *out = the line at *at, which moves on behind it. False: there is none (*at may be NULL). */
bool accuracies_next(const char **at, struct accuracy_wanted *out);
/* Appends a line to *lines (NULL: none yet; the caller frees it). ERR_NOMEM. */
MUST_USE enum status accuracies_add(char **lines, const char *task, const char *key, struct err *e);
/* Removes in place the lines of whose keys `is_done` is true; *lines becomes NULL without any. */
void accuracies_drop(char **lines, bool (*is_done)(const void *context, const char *key),
                     const void *context);
int64_t accuracies_count(const char *lines);
/* Whether there is a line with that name; key (may be NULL) = its key. */
bool accuracies_find(const char *lines, const char *name, char key[HASH_HEX]);

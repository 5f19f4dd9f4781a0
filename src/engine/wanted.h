/* wanted: the records that a visit is asked for besides those of its checkpoint and cells, of the
 * checkpoint or of a variant, as a text: a line "MEASURE LABEL KEY" for each, with line ends
 * between. The label is that on the measure's own axis, such as a task, or else the measure's name.
 * Lines of cells are texts that the record, which is there, is to be completed with: "cell text
 * DIGEST". */
#pragma once
#include "util/hash.h"

struct wanted {
    char measure[32], label[64], key[HASH_HEX];
};

/* *out = the line at *at, which moves on behind it. False: there is none (*at may be NULL). */
bool wanted_next(const char **at, struct wanted *out);
/* Appends a line to *lines (NULL: none yet; the caller frees it). ERR_NOMEM. */
MUST_USE enum status wanted_add(char **lines, const char *measure, const char *label,
                                const char *key, struct err *e);
/* Removes in place the lines of whose keys `is_done` is true; *lines becomes NULL without any. */
void wanted_drop(char **lines, bool (*is_done)(const void *context, const char *key),
                 const void *context);
/* Whether a line has the key. */
bool wanted_has(const char *lines, const char *key);
/* The number of lines of the measure; key (may be NULL) = that of the last of them. */
int64_t wanted_count(const char *lines, const char *measure, char key[HASH_HEX]);

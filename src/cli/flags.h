/* flags: what there is to tell of a command's flags. --help, man pages and completion follow it. */
#pragma once
#include "options/options.h"

struct flag {
    const char *heading;        /* of the flags from this one on; NULL: as of the one before */
    char *name;                 /* "--name"; owned */
    char *opposite;             /* of a switch that has one, "--no-name"; owned */
    const char *value;          /* stands for the value; NULL: a switch */
    char *doc;                  /* owned */
    const char *const *choices; /* the values that there are, NULL behind the last; NULL: any */
};

/* Zero-initialise. */
struct flag_list {
    int64_t n, capacity;
    struct flag *flags; // (n)
};
void flags_free(struct flag_list *l);

/* Appends a flag of the command's own. Copies name and doc, borrows value and choices. ERR_NOMEM.
 */
MUST_USE enum status flags_add(struct flag_list *l, const char *name, const char *value,
                               const char *doc, const char *const *choices, struct err *e);
/* Appends the flags of an options table; what is expected and the default end their doc. The
 * heading (NULL: none), which is borrowed, stands above the first. ERR_NOMEM. */
MUST_USE enum status flags_add_keys(struct flag_list *l, const char *heading,
                                    const struct option_table *t, const char *prefix,
                                    struct err *e);

/* Prints each flag with its doc, broken into lines of at most `width` columns. */
void flags_print(const struct flag_list *l, int64_t width, FILE *out);

/* What an error says behind an unknown flag, in `text` (size bytes): the nearest one if one is
 * near. ERR_NOMEM. */
MUST_USE enum status flags_advice(const struct flag_list *l, const char *name, char *text,
                                  size_t size, struct err *e);

/* Between the files of the options engine: tables (options.c) and single values (options_value.c).
 */
#pragma once
#include "options/options.h"

/* Reads a value that is no table, nor a list of tables, into the option's place in the entry.
 * Errors name the key. */
MUST_USE enum status option_read(const struct option *o, const struct option_scope *s, void *entry,
                                 struct err *e);
/* Sets the option's fallback, which it has, at its place. */
void option_default(const struct option *o, void *at);
/* Notes where the path is written, if the source asks. */
void option_note_path(const struct option_scope *s, const char *path);
/* "expected ..., found ...". */
MUST_USE enum status option_fail_expected(const struct option *o, const struct option_scope *s,
                                          struct err *e);

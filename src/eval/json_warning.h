/* json_warning: says that a text looks like JSON lines, and is read as plain text. */
#pragma once
#include "config/sweep.h"
#include "util/json.h"

/* *object (a new reference) = the first line that is not blank of the first file of d->text whose
 * first line is a JSON object, and *path (the caller frees) that file; NULL: there is none, among
 * those that can be read. ERR_NOMEM. Local. */
MUST_USE enum status json_of_text(const struct data_options *d, json_t **object, char **path,
                                  struct err *e);

/* Logs a warning if d has a text without a field and the first line that is not blank of one of its
 * files is a JSON object; it names the first such file and the object's keys. said: {text: true} of
 * what was looked at, which is not looked at again. A file that cannot be read is none. Local. */
void warn_of_json(const struct data_options *d, json_t *said);

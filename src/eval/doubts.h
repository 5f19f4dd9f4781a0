/* doubts: says what is doubtful about a text and its sequences. */
#pragma once
#include "config/sweep.h"
#include "model/sequences.h"
#include "util/json.h"

/* Whether one of the sequences first to end - 1 has more tokens than the model has positions (0:
 * not known); text (size bytes) = how many. data: what the sequences are, "evaluation wikitext". */
bool doubt_of_length(const char *data, const struct sequences *s, int64_t first, int64_t end,
                     int64_t positions, char *text, size_t size);
/* Whether the text has given fewer sequences, n, than `samples` asks for; text as above. */
bool doubt_of_number(const char *data, const struct data_options *d, int64_t n, char *text,
                     size_t size);
/* Logs the length as a warning. */
void warn_of_length(const char *model, const char *data, const struct sequences *s, int64_t first,
                    int64_t end, int64_t positions);

/* *object (a new reference) = the first line that is not blank of the first file of d->text whose
 * first line is a JSON object, and *path (the caller frees) that file; NULL: there is none, among
 * those that can be read. ERR_NOMEM. Local. */
MUST_USE enum status json_of_text(const struct data_options *d, json_t **object, char **path,
                                  struct err *e);

/* Logs a warning if d has a text without a field and the first line that is not blank of one of its
 * files is a JSON object; it names the first such file and the object's keys. said: {text: true} of
 * what was looked at, which is not looked at again. A file that cannot be read is none. Local. */
void warn_of_json(const struct data_options *d, json_t *said);

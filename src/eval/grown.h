/* grown: texts that have been appended to since their digests were taken. */
#pragma once
#include "config/sweep.h"
#include "util/json.h"

/* *out (a new reference) = {DIGEST: [files, bytes]} of the starts of d->text (struct text_start)
 * whose digest (dataset_hash) is a key of `known`: of those that end before or after the end of a
 * line, or with a file. Reads the files as they are stored; a compressed one has such starts where
 * it ends. ERR_IO, ERR_USAGE (neither text nor ids), ERR_NOMEM. */
MUST_USE enum status grown_starts(const struct data_options *d, const json_t *known, json_t **out,
                                  struct err *e);

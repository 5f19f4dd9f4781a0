/* complete: joins a record with a completion of it (results.h). */
#pragma once
#include "util/err.h"
#include "util/json.h"

/* Whether it completes the record (NULL: no): one that is done, and of the same weights. */
bool completion_fits(const json_t *record, const json_t *completion);
/* Whether it adds a prediction that the record lacks. */
bool completion_adds(const json_t *record, const json_t *completion);
/* Makes the record's fingerprint, what its last bits may depend on, that of both. Out of memory, it
 * stays (json_whole). */
void completion_fingerprint(json_t *record, const json_t *completion);
/* *out (the caller's) = the record and what completes it, in a copy. ERR_NOMEM. */
MUST_USE enum status completion_join(const json_t *record, const json_t *completion, json_t **out,
                                     struct err *e);

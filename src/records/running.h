/* running: the visits that a run is computing, in the file JOURNAL.running, while it runs:
 *   {"host", "pid": of the run, "visits": [{"name": "MODEL CHECKPOINT", "rank", "since": UTC,
 *                                           "what": what it does}, ...]}  the oldest first
 * It is for people: the journal says whether a visit is finished. */
#pragma once
#include "records/lock.h"
#include "util/json.h"

/* Replaces the file of this process. ERR_IO, ERR_FULL, ERR_NOMEM. */
MUST_USE enum status running_write(const char *journal, const json_t *visits, struct err *e);
/* Removes it, and what killed writers of it have left. Nothing if there is none. */
void running_remove(const char *journal);
/* The visits of the run that holds the journal's lock, a new reference; NULL: not known. */
json_t *running_read(const char *journal, const struct lock_holder *holder);

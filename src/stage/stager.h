/* stager: fetches the checkpoints that visits read, ahead of them and within the disk space that is
 * given, and removes them after the last visit (docs/decisions/0026-staging.md).
 *
 * A job is JSON:
 *   {"folder": the ledger's, "user": TEXT, "space": bytes (0: no limit), "tries": N,
 *    "pause": seconds, "commands": BOOL, "uses": BOOL,
 *    "others": [{"user", "journal": PATH, "needs": [PATH, ...]}, ...]  may be missing,
 *    "items": [{"name": "MODEL CHECKPOINT", "model", "path", "keep": BOOL, "command": [TEXT,
 * ...]}], "visits": [[index of an item, ...], ...]} Visits are served in order; all that a visit
 * reads is claimed at once, so that no two users wait for each other with half of what they need.
 * uses: the visits are run by this user, who ends them with stager_end_visit; else what they read
 * is only fetched. others: users who have not begun, as they have no journal yet; what they need
 * stays on disk while there is space. Nothing here uses MPI. */
#pragma once
#include "util/json.h"

struct stager;

/* Enters the ledger. Borrows job. ERR_LOCKED: a process is active as this user; ERR_FORMAT,
 * ERR_IO, ERR_FULL, ERR_NOMEM. */
MUST_USE enum status stager_open(const json_t *job, struct stager **out, struct err *e);
/* Ends a running command; what it has fetched so far stays, and is given to the next try. NULL:
 * nothing. */
void stager_close(struct stager *s);

/* Looks after everything; call it some times a second. The first call has registered what the
 * visits need when it returns. ERR_IO, ERR_FULL, ERR_NOMEM. */
MUST_USE enum status stager_step(struct stager *s, struct err *e);
/* Nothing will read what the visit needs. */
void stager_end_visit(struct stager *s, int64_t visit);

struct stager_counts {
    int64_t items, there,
        failed; /* checkpoints of the job: all, on disk at some time, not to be had */
    bool
        all; /* all visits have ended; if they are not run by this user, nothing is left to fetch */
    bool full; /* the next does not fit into the space */
};
/* As the last step found it. */
struct stager_counts stager_count(const struct stager *s);

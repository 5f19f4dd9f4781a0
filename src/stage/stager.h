/* stager: fetches the checkpoints that visits read, ahead of them and within the disk space that is
 * given, and removes them after the last visit (docs/decisions/0026-staging.md).
 *
 * A job is JSON:
 *   {"folder": the ledger's, "user": TEXT, "life": which process it is, "space": bytes,
 *    "tries": N, "pause": seconds, "patience": seconds without a byte, "commands": BOOL, "uses":
 * BOOL, "models": {MODEL: expected bytes of a checkpoint}, "items": {PATH: {"name", "model",
 * "keep": BOOL, "command": [TEXT, ...], "partial": the folder that the command fills, "log"}},
 *    "visits": [{"folder", "user", "life", "space", "visit": its name, "reads": SET (claims.h)}]}
 * commands: it starts them. uses: the visits are run by this user, who ends them with
 * stager_end_visit; else what they read is only fetched. Visits are in the order in which they are
 * to run. Nothing here uses MPI. */
#pragma once
#include "stage/claims.h"

struct stager;

/* Enters the ledger. Takes job. The caller closes *out, also after an error. ERR_LOCKED: a process
 * is active as this user; ERR_IO, ERR_FULL, ERR_NOMEM. */
MUST_USE enum status stager_open(json_t *job, struct stager **out, struct err *e);
/* Ends a running command; what it has fetched so far stays, and is given to the next try. Removes
 * what is needed no longer. NULL: nothing. */
void stager_close(struct stager *s);
CLEANUP_BY_VALUE(struct stager, stager_close);

struct stager_counts {
    int64_t items, there, failed, left; /* of the job: all, on disk at some time, not to be had, to
                                           be fetched */
    bool full;                          /* the next does not fit into the space */
};
/* Looks after everything, and says how it is then (n; NULL: not); call it five times a second. The
 * first call has registered what the visits need when it returns. ERR_USAGE: a visit reads more
 * than the space; ERR_IO: folders cannot be made or removed, or others have taken this user for
 * dead; ERR_FULL, ERR_NOMEM. */
MUST_USE enum status stager_step(struct stager *s, struct stager_counts *n, struct err *e);
/* Nothing will read what the job's visit of that number needs. From any thread. */
void stager_end_visit(struct stager *s, int64_t visit);

/* Whether a visit may read its checkpoints. stage: of a job's visits. asks: asks for the lease of
 * all of them; else only looks whether they are on disk, as the other ranks of a group do. message:
 * CLAIM_NEVER: why. */
enum claim stager_ask(const json_t *stage, bool asks, char message[512]);

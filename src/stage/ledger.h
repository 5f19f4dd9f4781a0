/* ledger: which checkpoints `stage` has fetched, is fetching, or could not fetch, and who needs
 * them. It is the file state.json in the folder RESULTS.stage, which the parts of a sweep share: it
 * is changed under a lock and replaced as a whole, so that anybody may read it at any time.
 *
 *   {"models":      {MODEL: {"bytes": N}}                     the largest checkpoint so far
 *    "checkpoints": {PATH: {"state": "claimed"                somebody fetches it now or next
 *                                    "there"                  fetched
 *                                    "removing"               no longer needed
 *                                    "failed",                "message" says why
 *                           "bytes": N, "by": USER, "keep": BOOL, "name": "MODEL CHECKPOINT",
 *                           "needed": a user needs it, or has needed it}}
 *    "users":       {USER: {"needs": [PATH]                   in the order in which it does
 *                           "first": {PATH: MODEL}            what its first visit reads
 *                           "granted": {VISIT: {PATH: MODEL}} visits that have their space
 *                           "ready": [VISIT]                  of those, what may begin
 *                           "expected": true                  others say that it will begin
 *                           }} until it has ended its visits}
 *
 * A folder that is on disk but not in "checkpoints" is the user's own: not counted, never removed.
 */
#pragma once
#include "util/json.h"

struct lock;
struct ledger {
    char *folder, *user;
    struct lock *held; /* shows that the user is active */
};

/* Enters as a user of the ledger in `folder`, which is made. ERR_LOCKED: a process is active as
 * this user; ERR_IO, ERR_FULL, ERR_NOMEM. Close even after a failure. */
MUST_USE enum status ledger_open(const char *folder, const char *user, struct ledger *out,
                                 struct err *e);
void ledger_close(struct ledger *l);
/* Whether a process is active as that user. */
bool ledger_active(const struct ledger *l, const char *user);

/* Calls change(context, state) while no other process changes the state, and stores the state if it
 * returns true in *changed. Waits for the lock. Errors of change; ERR_IO, ERR_FULL, ERR_NOMEM. */
typedef enum status ledger_change(void *context, json_t *state, bool *changed, struct err *e);
MUST_USE enum status ledger_update(const struct ledger *l, ledger_change *change, void *context,
                                   struct err *e);

/* *out (a new reference) = the state as it is now; empty if there is none. ERR_IO, ERR_FORMAT. */
MUST_USE enum status ledger_read(const char *folder, json_t **out, struct err *e);

/* Bytes of the largest checkpoint of the model that was fetched; -1: none was. */
int64_t ledger_model_bytes(const json_t *state, const char *model);

/* Names of files, owned by the caller; ERR_NOMEM. The ledger's folder of a sweep's results; in it,
 * the folder with a config.json of the model (fetched checkpoints may be gone when a run is
 * planned), and the log of what the command wrote for a checkpoint ("MODEL CHECKPOINT"). */
MUST_USE enum status ledger_folder(const char *results, char **out, struct err *e);
MUST_USE enum status ledger_shape(const char *folder, const char *model, char **out, struct err *e);
MUST_USE enum status ledger_log(const char *folder, const char *name, char **out, struct err *e);
/* *out (the caller frees) = the one spelling of a path by which a ledger knows a checkpoint,
 * wherever a command is started: absolute, without links in what exists of it. ERR_NOMEM. */
MUST_USE enum status ledger_path(const char *path, char **out, struct err *e);
/* The name of a checkpoint's folder while it is fetched ("partial") or removed ("removing"): beside
 * it, and hidden. */
MUST_USE enum status ledger_beside(const char *path, const char *what, char **out, struct err *e);

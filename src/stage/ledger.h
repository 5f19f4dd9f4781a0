/* ledger: what the users of staged checkpoints share, the parts of a sweep and `qtraj stage`: the
 * file state.json (claims.h) in the folder RESULTS.stage. It is changed under a lock and replaced
 * as a whole, so that anybody may read it at any time. */
#pragma once
#include "util/json.h"

/* Calls change(context, state) while no other process changes the state, removes what is "removing"
 * then, and stores what has changed. Waits for the lock. Errors of change; ERR_IO, ERR_FULL,
 * ERR_NOMEM. */
typedef enum status ledger_change(void *context, json_t *state, struct err *e);
MUST_USE enum status ledger_update(const char *folder, ledger_change *change, void *context,
                                   struct err *e);
/* *out (a new reference) = the state as it is now; empty if there is none. ERR_IO, ERR_FORMAT. */
MUST_USE enum status ledger_read(const char *folder, json_t **out, struct err *e);

/* Names of files, owned by the caller; ERR_NOMEM. In the ledger's folder, one file of a kind for
 * each name: "user", whose lock shows that a process is active as that user; "log", what the
 * command wrote for the checkpoint of that path. */
MUST_USE enum status ledger_file(const char *folder, const char *name, const char *kind, char **out,
                                 struct err *e);
/* *out (the caller frees) = the one spelling of a path by which a ledger knows a checkpoint,
 * wherever a command is started. Makes the folder that it is in. ERR_IO, ERR_FULL, ERR_NOMEM. */
MUST_USE enum status ledger_path(const char *path, char **out, struct err *e);
/* The name of a checkpoint's folder while it is fetched or removed: beside it, and hidden. */
MUST_USE enum status ledger_partial(const char *path, char **out, struct err *e);
/* The file that is written last into a fetched folder: writes it; whether it is there. ERR_IO,
 * ERR_FULL, ERR_NOMEM. */
MUST_USE enum status ledger_mark(const char *path, struct err *e);
bool ledger_has_fetched(const char *path);

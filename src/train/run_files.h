/* run_files: what a run leaves in its folder (docs/training.md): run.json, steps.csv,
 * trajectory.csv, checkpoints, state/, end.json. Local, for the first rank of a group; the lock of
 * steps.csv keeps other groups away. */
#pragma once
#include "records/steps_table.h"
#include "train/runs.h"

/* How a run has ended. */
enum run_end { RUN_OPEN, RUN_DONE, RUN_DIVERGED };
struct run_ending {
    enum run_end end;
    int64_t step;      /* the last one */
    char message[520]; /* of RUN_DIVERGED */
};
/* Reads end.json; RUN_OPEN where there is none. ERR_FORMAT: it is damaged; ERR_IO, ERR_NOMEM. */
MUST_USE enum status run_ending_read(const struct run *r, struct run_ending *out, struct err *e);

/* *out (the caller frees) = the path of the state after a step; *step = the latest one that the run
 * has, -1: none. ERR_NOMEM. */
MUST_USE enum status run_state_path(const struct run *r, int64_t step, char **out, struct err *e);
MUST_USE enum status run_state_latest(const struct run *r, int64_t *step, struct err *e);
/* *out (the caller frees) = the folder of the initial weights of a run or of the run that it
 * branches from. ERR_NOMEM. */
MUST_USE enum status run_start_path(const struct runs *all, const struct run *r, char **out,
                                    struct err *e);

/* *out (a new reference) = what a run.json says that the weights depend on. ERR_FORMAT, ERR_IO,
 * ERR_NOMEM. */
MUST_USE enum status run_settings_read(const char *path, json_t **out, struct err *e);
/* Compares the settings with those in run.json; *there: it has begun. ERR_USAGE: it was begun with
 * others, whose key is named; ERR_IO, ERR_FORMAT, ERR_NOMEM. */
MUST_USE enum status run_settings_check(const struct run *r, const json_t *settings, bool *there,
                                        struct err *e);

/* The type that the run's checkpoints are written with, as in a config.json; *out: those that are
 * there have it, the initial weights aside, which are float32 always. ERR_NOMEM. */
static inline const char *run_type(const struct run *r)
{
    return r->recipe->checkpoints.dtype ? "bfloat16" : "float32";
}
MUST_USE enum status run_has_type(const struct run *r, bool *out, struct err *e);

struct run_files;

/* Makes the run's folder, takes its lock, and removes what a killed process left half written.
 * settings: what the weights depend on, kept in run.json. Close *out with run_files_close.
 * ERR_LOCKED: another process trains it; ERR_USAGE: it was begun with other settings, which are
 * named; ERR_FULL, ERR_IO, ERR_NOMEM. */
MUST_USE enum status run_files_open(const struct run *r, const json_t *settings,
                                    struct run_files **out, struct err *e);
void run_files_close(struct run_files *f);
CLEANUP_BY_VALUE(struct run_files, run_files_close)

/* Cuts steps.csv behind a step; *above = consecutive steps up to it with a loss above `limit`.
 * ERR_IO, ERR_FULL, ERR_NOMEM. */
MUST_USE enum status run_files_cut(struct run_files *f, int64_t step, double limit, int64_t *above,
                                   struct err *e);
/* Appends a row; that of a step with a checkpoint joins trajectory.csv as well. ERR_FULL, ERR_IO.
 */
MUST_USE enum status run_files_add(struct run_files *f, const struct steps_row *row, struct err *e);
/* Writes the checkpoint of a step, unless it is there, and trajectory.csv. Errors as of
 * folder_create. */
MUST_USE enum status run_files_checkpoint(struct run_files *f, const struct trainer *t,
                                          int64_t step, struct err *e);
/* Before a state is saved: rows are on disk, the lock is held. ERR_IO, ERR_FULL. */
MUST_USE enum status run_files_sync(struct run_files *f, struct err *e);
/* Removes states of a run that nothing needs: all but the latest (of one that has ended: that one
 * too), those that branches still begin from, and with checkpoints.states those of checkpoints.
 * others: counts those that nothing needs, and removes none; NULL. ERR_FORMAT: end.json is damaged;
 * ERR_IO, ERR_NOMEM. */
MUST_USE enum status run_states_tidy(const struct runs *all, int64_t run, int64_t *others,
                                     struct err *e);
/* Writes end.json. ERR_FULL, ERR_IO. */
MUST_USE enum status run_files_end(struct run_files *f, const struct run_ending *end,
                                   struct err *e);

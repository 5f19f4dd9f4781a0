/* known_runs: runs under other names. A grid's keys may be written otherwise, added or put in
 * another order: a run whose settings some folder of the output was begun with is that one. */
#pragma once
#include "train/train_job.h"

/* *out (a new reference; NULL on failure) = {FOLDER: settings (run.json)} of what is in the folder
 * `output`, which may not be there, by name; null: it cannot be read. ERR_NOMEM. Local. */
MUST_USE enum status known_runs_read(const char *output, json_t **out, struct err *e);

/* If the run has not begun and a folder that is no other run's was begun with its settings and has
 * checkpoints of its type, the run takes that folder's name, which its branches' `left` follows,
 * and a message says so. States that are there stay, but the one that an open run goes on from:
 * branches of another file may begin from them. job->sources[] of its recipe is filled with the
 * digest; runs that it branches from come before it. ERR_NOMEM. Local. */
MUST_USE enum status known_run_take(struct train_job *job, json_t *known, int64_t run,
                                    struct err *e);

/* The same of all wanted runs by rank 0, for all ranks. Collective on job->world. ERR_NOMEM. */
MUST_USE enum status known_runs_take_all(struct train_job *job, struct err *e);

/* Warns of each run in the output that has not ended, and of how many branches that begin at one
 * have no checkpoint yet; of branches that have not begun nothing is known. ERR_NOMEM. */
MUST_USE enum status unfinished_warn(const char *output, struct err *e);

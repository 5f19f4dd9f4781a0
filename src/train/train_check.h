/* train_check: what is left of runs, and what would make them fail, before any is trained. Local.
 */
#pragma once
#include "train/run_files.h"
#include "train/train_job.h"
#include "util/faults.h"

enum readiness { READY, WAITS /* for its parent */, ENDED, NEVER };

/* What is left of a run. */
struct run_left {
    enum run_end end;
    int64_t step; /* done; those behind it are left unless it has ended */
    bool failing;
};

/* why (size bytes) = why a branch cannot begin: its run has ended before that step or, passed,
 * without keeping the state. */
void train_say_never(const struct run *branch, bool passed, char *why, size_t size);
/* Whether a run can begin: it has not ended, and its state or that which it begins from is there or
 * comes. *left: failing is not set. why (size bytes) = why it can NEVER. ERR_FORMAT: its end.json
 * is damaged; ERR_IO, ERR_NOMEM. */
MUST_USE enum status train_readiness(const struct runs *all, int64_t run, enum readiness *out,
                                     struct run_left *left, char *why, size_t size, struct err *e);

/* ERR_USAGE: the run, or one that it branches from, cannot be made or was begun with other
 * settings, texts among them. ERR_FORMAT, ERR_IO, ERR_NOMEM. */
MUST_USE enum status train_settings_check(const struct train_job *job, int64_t run, struct err *e);
/* Adds to *f what is wrong with the settings of a run, with the tokenizer, its number of tokens and
 * what it was begun with; job->sources[] of its recipe is filled. *failing: something is.
 * ERR_NOMEM.
 */
MUST_USE enum status train_check_run(const struct train_job *job, int64_t run, struct faults *f,
                                     bool *failing, struct err *e);

/* Adds to *f what of a run that is done up to `step` is not as its file now says: checkpoints at
 * steps that it has passed without one, checkpoints of another type, states that will be removed.
 * ERR_IO, ERR_NOMEM. */
MUST_USE enum status train_check_kept(const struct runs *all, int64_t run, int64_t step,
                                      struct faults *f, struct err *e);

/* Looks at all wanted runs, their texts and folders, and writes nothing. Fills job->sources
 * (n_recipes; the caller's, zero) with what is needed for train_settings. left (n runs). Adds what
 * is wrong to *f. ERR_NOMEM, ERR_IO. */
MUST_USE enum status train_check_all(struct train_job *job, struct run_left *left, struct faults *f,
                                     struct err *e);

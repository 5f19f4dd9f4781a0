/* train_all: trains the runs of a runs file by groups of ranks. A group takes the next run that
 * nobody trains and whose beginning is there: locks say so, so that groups, processes and jobs that
 * see the same folder share the work without a master (docs/decisions/0036-training.md). */
#pragma once
#include "train/train_job.h"

struct train_totals {
    int64_t wanted, done, diverged;
};

/* Trains all that is wanted and not done. A run that cannot be trained is reported and left out, a
 * diverged one ends; the rest goes on. Collective on world. ERR_STOPPED: as must_stop said, all
 * states are saved; ERR_FULL, ERR_IO, ERR_NOMEM: a restart goes on; errors of corpus_prepare. */
MUST_USE enum status train_all(struct train_job *job, struct train_totals *out, struct err *e);

/* --- one run; internal --- */
struct run_files;
/* Trains a run from its last state to its end. files: of the first rank, taken over. Collective on
 * group. Errors as above. */
MUST_USE enum status train_run(const struct train_job *job, int64_t run, MPI_Comm group,
                               struct run_files *files, const json_t *config, struct err *e);

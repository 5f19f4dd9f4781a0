/* slurm_checks: what would make the jobs of a sweep fail, as far as it is known before they are
 * submitted. */
#pragma once
#include "plan/plan.h"

/* Adds a fault if the results are not this sweep's or of other weights (owner.h), have lost their
 * journal, or cannot be written. ERR_NOMEM. */
MUST_USE enum status run_check_results(struct plan *p, struct plan_faults *f, struct err *e);
/* Adds to *f what the sweep writes or starts and cannot: its results, report (NULL: none), saved
 * states, exports, run.scratch, the commands of `stage`. ERR_NOMEM. */
MUST_USE enum status slurm_check_folders(struct plan *p, const char *report, struct plan_faults *f,
                                         struct err *e);

/* *rate (the caller frees) = the rate of a node of the partition (NULL: the default one) that a job
 * has measured, as --rate is given; NULL: none has. *file (the caller frees) = where it is kept,
 * beside the results. ERR_NOMEM. */
MUST_USE enum status slurm_rate_known(const char *results, const char *partition, char **file,
                                      char **rate, struct err *e);

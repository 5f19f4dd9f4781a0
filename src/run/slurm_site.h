/* slurm_site: what Slurm says of the nodes and jobs that `qtraj slurm` asks for. */
#pragma once
#include "run/slurm_parts.h"

/* What the command was given; NULL, 0: not. */
struct slurm_request {
    const char *time, *partition, *account, *memory;
    int64_t nodes, cores;
};
/* Sets all of *at but `recorded`: as given, else as Slurm says of the partition (the default one).
 * ERR_USAGE: not as expected, no such partition, or neither says what a node has. */
MUST_USE enum status slurm_nodes_find(const struct slurm_request *r, struct slurm_nodes *at,
                                      struct err *e);
/* Adds to *f what would keep the jobs from starting, though sbatch takes them: a partition that is
 * down, a walltime above its limit, more cores than its nodes have. ask: also what sbatch itself
 * says of an element and of the merge (its script). ERR_NOMEM. */
MUST_USE enum status slurm_site_check(const struct slurm_request *r, const struct slurm_nodes *at,
                                      const struct plan *p, bool ask, const char *merge,
                                      struct plan_faults *f, struct err *e);
/* The comment (the caller frees) by which jobs that compute these results are known. ERR_NOMEM. */
MUST_USE enum status slurm_comment(const char *results, char **out, struct err *e);
/* ids (size bytes) = "12 15": this user's jobs with the comment that wait or run, but not this
 * one; "": none, or there is no squeue. */
void slurm_find_jobs(const char *comment, char *ids, size_t size);
/* Adds to *f that jobs with this comment wait or run (but not this one), or that a process holds
 * the results or those of a part. ERR_NOMEM. */
MUST_USE enum status slurm_check_jobs(const struct plan *p, const char *comment,
                                      struct plan_faults *f, struct err *e);
/* Whether the report's Python is found: by `script`, slurm/python.sh; why (size bytes) = what it
 * says. */
bool slurm_python_found(const char *script, char *why, size_t size);

/* --- what would make the jobs fail --- */

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

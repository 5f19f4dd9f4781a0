/* helper: the process beside rank 0 that stages checkpoints. It is forked before MPI starts,
 * because processes that use MPI must not start others, and ends with rank 0. */
#pragma once
#include "util/json.h"

struct helper;

/* Starts it, idle. Call before MPI_Init. ERR_IO, ERR_NOMEM: no process. */
MUST_USE enum status helper_start(struct helper **out, struct err *e);
/* Gives it a job (stager.h) in place of the one before, and waits until what its visits need is
 * registered. Errors of stager_open and of the first stager_step. */
MUST_USE enum status helper_give(struct helper *h, const json_t *job, struct err *e);
/* Nothing will read what the job's visit needs. */
void helper_end_visit(struct helper *h, int64_t visit);
/* ERR_IO: it has ended before its time. NULL: nothing. */
MUST_USE enum status helper_check(const struct helper *h, struct err *e);
/* Lets it do what it was told, which includes removing checkpoints, ends it and waits for that.
 * NULL: nothing. */
void helper_end(struct helper *h);

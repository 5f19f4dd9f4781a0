/* run_stage: the staging of checkpoints in a run: rank 0's thread, and the visits' wait. */
#pragma once
#include "plan/plan.h"
#include "sched/sched.h"

/* Sorts the visits, and starts the thread that stages for them, if a model has a `stage`. Errors of
 * plan_stage_job, stager_open and stager_step. */
MUST_USE enum status run_stage_begin(const struct plan *p, struct plan_visits *v,
                                     const struct plan_part *part, struct err *e);
/* As struct sched_sink has it: the visit of that number has ended: what only it needed is removed.
 */
void run_stage_end_visit(void *unused, int64_t visit);
/* The thread has ended before its time: its error. */
MUST_USE enum status run_stage_check(struct err *e);
/* Ends the thread, after it has removed what is needed no longer. */
void run_stage_end(void);

/* Waits until the checkpoints of a visit are there, and leased by it. stage: of its JSON (NULL:
 * nothing is staged). left: seconds that the visit then takes, for progress. *waited = seconds;
 * refusal = why its cells must fail, "" if they are there. Collective on group. ERR_STOPPED: the
 * job is to be dropped. */
MUST_USE enum status run_stage_await(const json_t *stage, MPI_Comm group, struct sched_port *port,
                                     double left, double *waited, char refusal[512], struct err *e);

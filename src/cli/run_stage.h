/* run_stage: the staging of checkpoints in a run: rank 0's helper process, and the visits' wait. */
#pragma once
#include "plan/plan.h"
#include "sched/sched.h"

/* Starts the helper (stage/helper.h) in rank 0. Call before MPI starts: the rank is that of the
 * launcher's environment. */
void run_stage_before_mpi(void);

/* On rank 0, before the plan: has one checkpoint of each model staged of which nothing is known,
 * and waits for it. Does nothing, and lets the helper go, if no model has a `stage`. ERR_IO: none
 * of its checkpoints could be staged; errors of helper_give. */
MUST_USE enum status run_stage_begin(const struct sweep *s, const struct plan_part *part,
                                     struct err *e);
/* The visits' job: sets their turns. part (n 0: the whole sweep), view: as of plan_stage_others.
 * Errors of plan_stage_job, plan_stage_others and helper_give. */
MUST_USE enum status run_stage_give(const struct plan *p, struct plan_visits *v,
                                    const int64_t *ranks, const struct plan_part *part,
                                    const struct results_view *view, struct err *e);
/* The visit has ended: what only it needed is removed. */
void run_stage_end_visit(const struct plan_visit *v);
/* ERR_IO: the helper has ended before its time. */
MUST_USE enum status run_stage_check(struct err *e);
/* Ends the helper, after it has removed what is needed no longer. */
void run_stage_end(void);

/* Waits until the checkpoints of a visit are there. stage: of its JSON (NULL: nothing is staged).
 * left: seconds that the visit then takes, for progress. *waited = seconds; refusal = why its cells
 * must fail, "" if they are there. Collective on group. ERR_STOPPED: the task is to be dropped. */
MUST_USE enum status run_stage_await(const json_t *stage, MPI_Comm group, struct sched_port *port,
                                     double left, double *waited, char refusal[512], struct err *e);

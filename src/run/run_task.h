/* run_task: a visit of the plan as a task of the scheduler. */
#pragma once
#include "plan/plan.h"

/* *text (the caller frees) = the visit for the way to another rank. ERR_NOMEM. */
MUST_USE enum status run_task_write(const struct plan_visit *v, char **text, struct err *e);
/* *name (the caller frees) = "MODEL CHECKPOINT", or "surface NAME" and the label of its point.
 * ERR_NOMEM. */
MUST_USE enum status run_task_name(const struct visit *v, char **name, struct err *e);

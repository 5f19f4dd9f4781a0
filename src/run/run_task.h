/* run_task: a visit of the plan as a task of the scheduler. */
#pragma once
#include "plan/plan.h"

/* *text (the caller frees) = the visit for the way to another rank. ERR_NOMEM. */
MUST_USE enum status run_task_write(const struct plan_visit *v, char **text, struct err *e);

/* run_job: a visit of the plan as a job of the scheduler. */
#pragma once
#include "plan/plan.h"

/* *text (the caller frees) = the visit for the way to another rank. ERR_NOMEM. */
MUST_USE enum status run_job_write(const struct plan_visit *v, char **text, struct err *e);

/* owner: whose the results are that a sweep names. */
#pragma once
#include "config/sweep.h"

/* Refuses results (a cube's path; without a journal: the sweep's parts) whose newest plan is of a
 * sweep with another name, or has no checkpoint (model and name) of this one, so that nothing of it
 * would be shown any more. ERR_USAGE: the text says what is there; ERR_NOMEM. */
MUST_USE enum status owner_check(const struct sweep *s, const char *results, struct err *e);

/* run_until: when a run must have ended. */
#pragma once
#include "util/err.h"

/* Unix time of the earlier of these, INFINITY if there is neither: what --until says (NULL: not
 * given), a length of time from now or a moment ("2026-01-31T18:00", local time, or "@" and a Unix
 * time); and the end of the Slurm job in which the process runs. ERR_USAGE: text is neither. */
MUST_USE enum status run_until_find(const char *text, double *when, struct err *e);

/* Limits the scheduler's time (sched_end) to that moment: visits end a little earlier, for the last
 * cube. Says so. */
void run_until_set(double when);

/* train_simulate: how long the runs of a file take on many groups of ranks. Local. */
#pragma once
#include "train/runs.h"

/* *out = seconds until the wanted runs (all->n) have ended on so many groups (>= 1), which take
 * them as train_all does: each the first run in the list whose parent has passed the step that it
 * branches from. seconds (all->n): of each run on one group; 0 for one that has ended. A wanted
 * run's parent is wanted. ERR_NOMEM. */
MUST_USE enum status train_simulate(const struct runs *all, const bool *wanted,
                                    const double *seconds, int64_t groups, double *out,
                                    struct err *e);

/* train_plan: what a file of runs would take: steps, tokens, checkpoints, memory, disk, time. */
#pragma once
#include "train/train_all.h"

/* Prints a line for each wanted run and what all take together, with one rank to a run and `ranks`
 * of them. rate: GFLOP/s of sgemm of a rank; 0: it is measured. Errors of train_settings. Local. */
MUST_USE enum status train_plan_print(const struct runs *runs, const bool *wanted, int64_t ranks,
                                      double rate, struct err *e);

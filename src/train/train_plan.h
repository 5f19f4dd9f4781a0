/* train_plan: what a file of runs would take, and what of it would fail. */
#pragma once
#include "train/train_job.h"

struct train_plan_options {
    const bool *wanted;    // (runs)
    int64_t ranks, memory; /* of them all, one to a run; bytes of each, 0: not known */
    double rate;           /* GFLOP/s of sgemm of a rank; 0: it is measured */
    /* Numbers of ranks to simulate, as "1,16"; NULL: none. efficiency: of so many that train one
     * run together, a share of their sum. */
    const char *simulate;
    double (*efficiency)(int64_t ranks);
};
enum train_plan_verdict { TRAIN_PLAN_GOOD, TRAIN_PLAN_SOME_FAIL, TRAIN_PLAN_ALL_FAIL };

/* Prints a line for each wanted run and what those take together that are left, how long that many
 * ranks take (train_simulate), and warns of what would fail (train_check.h); writes nothing.
 * ERR_USAGE: simulate cannot be read; ERR_NOMEM, ERR_IO. Local. */
MUST_USE enum status train_plan_print(struct runs *runs, const struct train_plan_options *o,
                                      enum train_plan_verdict *out, struct err *e);

/* *out = seconds until the wanted runs (all->n) have ended on so many groups (>= 1), which take
 * them as train_all does: each the first run in the list whose parent has passed the step that it
 * branches from. seconds (all->n): of each run on one group; 0 for one that has ended. A wanted
 * run's parent is wanted. ERR_NOMEM. */
MUST_USE enum status train_simulate(const struct runs *all, const bool *wanted,
                                    const double *seconds, int64_t groups, double *out,
                                    struct err *e);

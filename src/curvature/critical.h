/* critical: critical sharpness 2 / eta_c, where eta_c is the smallest step along a direction d at
 * which the loss exceeds its value at step 0 (arXiv 2601.16979). Needs forward passes only. For a
 * quadratic loss it equals d . H d / (-g . d). */
#pragma once
#include "checkpoint/checkpoint.h"
#include "util/err.h"

struct critical {
    double sharpness; /* inf: the loss rises at the shortest step; 0: not even at the longest */
    double low, high; /* the loss has risen at step high, not at low; 0, inf: no such step found */
    int64_t passes;   /* forward passes: losses computed */
};

/* The loss as a function of the step; a loss that is not finite counts as risen. */
struct critical_line {
    enum status (*loss)(void *context, double step, double *loss, struct err *e);
    void *context;
};

/* Doubles or halves the step from 1 until eta_c is bracketed, between 2^-10 and 2^10, then bisects
 * until low and high are within a sixteenth, as the paper's code does; eta_c is their midpoint.
 * start: the loss at step 0. ERR_NUMERIC: the loss is NaN at every step; errors of the line. */
MUST_USE enum status critical_search(const struct critical_line *line, double start,
                                     struct critical *out, struct err *e);

/* Computes the loss of a checkpoint. Collective if ranks compute it together: a rank that could not
 * combine the weights passes c = NULL and its status st, e, so that all ranks fail together. */
struct critical_loss {
    enum status (*of)(void *context, enum status st, struct checkpoint *c, double *loss,
                      struct err *e);
    void *context;
};

/* Critical sharpness from `from` along to - from (sign 1) or from - to (sign -1); a step of 1 is
 * that whole difference. Weights are combined while they are loaded (checkpoint/derived.h). start:
 * the loss of `from`. Errors as critical_search. */
MUST_USE enum status critical_between(const struct checkpoint *from, const struct checkpoint *to,
                                      double sign, const struct critical_loss *loss, double start,
                                      struct critical *out, struct err *e);

/* critical: critical sharpness 2 / eta_c, where eta_c is the smallest step along a direction at
 * which the loss rises above where it starts (arXiv 2601.16979). Forward passes only. For a
 * quadratic loss it is d . H d / (-g . d). */
#pragma once
#include "checkpoint/checkpoint.h"
#include "util/err.h"

struct critical {
    double sharpness; /* inf: the loss rises at once; 0: not even at the longest step */
    double low, high; /* the loss rises at a step of high and not at low; 0, inf where not found */
    int64_t passes;   /* losses computed */
};

/* A loss as a function of the step; not finite counts as risen. */
struct critical_line {
    enum status (*loss)(void *context, double step, double *loss, struct err *e);
    void *context;
};

/* Steps of 1, then doubled or halved until the loss turns, between 2^-10 and 2^10, then bisection
 * until low is within a sixteenth of high, as the paper's code does; eta_c is halfway between them.
 * start: the loss at step 0. ERR_NUMERIC: the loss is NaN at every step; errors of the line. */
MUST_USE enum status critical_search(const struct critical_line *line, double start,
                                     struct critical *out, struct err *e);

/* The loss of a checkpoint. Where ranks measure it together it is collective: c is NULL on one that
 * could not make it (st, e say why), which only has to tell the others. */
struct critical_loss {
    enum status (*of)(void *context, enum status st, struct checkpoint *c, double *loss,
                      struct err *e);
    void *context;
};

/* Along to - from (sign 1) or from - to (-1), starting at from; the unit of a step is their
 * distance. Weights are combined while they load (checkpoint/derived.h). start: the loss of `from`.
 */
MUST_USE enum status critical_between(const struct checkpoint *from, const struct checkpoint *to,
                                      double sign, const struct critical_loss *loss, double start,
                                      struct critical *out, struct err *e);

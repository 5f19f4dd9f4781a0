/* schedule: the learning rate of each optimizer step (docs/math/training.md). Local. */
#pragma once
#include "options/options.h"
#include "util/err.h"

enum schedule_kind {
    SCHEDULE_WSD, /* warm-up, stable, decay */
    SCHEDULE_COSINE,
    SCHEDULE_NEOX_COSINE, /* GPT-NeoX's, as Pythia was trained */
    SCHEDULE_LINEAR,
    SCHEDULE_CONSTANT,
    SCHEDULE_INVERSE_SQRT,
    SCHEDULE_PIECEWISE, /* straight lines between points */
    SCHEDULE_DECAY      /* the decay of WSD alone, from the step of a branch on */
};
enum schedule_shape { SHAPE_LINEAR, SHAPE_ONE_MINUS_SQRT, SHAPE_COSINE };
enum rate_of_step { RATE_BEFORE, RATE_AFTER }; /* step k uses the rate of k - 1 or of k steps */
enum { SCHEDULE_POINTS = 64 };

/* As written, and (last lines) resolved. */
struct schedule {
    int kind, shape, rate_of_step;
    double peak, start, end;
    char *warmup, *decay; /* steps, or "1%" of them, cut off; NULL: as the kind has them */
    int64_t n_at, n_rates;
    int64_t at[SCHEDULE_POINTS]; // (n_at)
    double rates[SCHEDULE_POINTS];
    int64_t warmup_steps, decay_steps, decay_from, total;
};
extern const struct option_table schedule_table;

/* Resolves the numbers of steps of a schedule for steps (first, first + steps]; first is 0 but for
 * branches. ERR_USAGE: a number that cannot be read, more warm-up and decay than there are steps.
 */
MUST_USE enum status schedule_resolve(struct schedule *s, int64_t first, int64_t steps,
                                      struct err *e);
/* The rate after t finished steps. */
double schedule_rate(const struct schedule *s, int64_t t);
/* The rate that step k = 1, 2, ... uses. */
double schedule_rate_of_step(const struct schedule *s, int64_t k);
/* Its kind as a runs file names it. Static string. */
const char *schedule_kind(const struct schedule *s);
/* "warmup", "stable" or "decay": the part that the rate after t steps is of. Static string. */
const char *schedule_phase(const struct schedule *s, int64_t t);

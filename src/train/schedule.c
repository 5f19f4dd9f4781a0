#include "train/schedule.h"
#include "util/num.h"
#include <math.h>
#include <stdlib.h>

static const char *const kinds[] = {"wsd",       "cosine",   "neox_cosine",
                                    "linear",    "constant", "inverse_sqrt",
                                    "piecewise", "decay",    NULL};
static const char *const shapes[] = {"linear", "1-sqrt", "cosine", NULL};
static const char *const before_after[] = {"before", "after", NULL};

const char *schedule_kind(const struct schedule *s)
{
    return kinds[s->kind];
}

static enum status finish(void *entry, const struct option_scope *scope, struct err *e)
{
    const struct schedule *s = entry;
    if (s->kind == SCHEDULE_PIECEWISE && (s->n_at < 1 || s->n_at != s->n_rates))
        PASS(options_fail(scope, "at", e, "expected as many steps as rates, at least one"));
    for (int64_t i = 1; s->kind == SCHEDULE_PIECEWISE && i < s->n_at; i++)
        if (s->at[i] <= s->at[i - 1])
            PASS(options_fail(scope, "at", e, "expected steps that grow"));
    return OK;
}

static const struct option keys[] = {
    OPTION(schedule, kind, CHOICE, "how the learning rate changes; decay: for branches",
           .fallback = "wsd", .choices = kinds),
    OPTION(schedule, peak, REAL, "largest learning rate", .fallback = "1e-3",
           .otherwise = "1e-3, of a branch that of its run", .minimum = 0, .maximum = HUGE_VAL),
    OPTION(schedule, start, REAL, "rate that the warm-up begins with", .fallback = "0",
           .minimum = 0, .maximum = HUGE_VAL),
    OPTION(schedule, end, REAL, "rate that the schedule ends with", .fallback = "0", .minimum = 0,
           .maximum = HUGE_VAL),
    OPTION(schedule, warmup, TEXT, "steps of the warm-up, or their share as in 1%",
           .otherwise = "0"),
    OPTION(schedule, decay, TEXT, "wsd: steps of the decay, or their share as in 20%",
           .otherwise = "0", .with = "kind=wsd"),
    OPTION(schedule, shape, CHOICE, "form of the decay", .fallback = "linear", .choices = shapes,
           .with = "kind=wsd|decay"),
    {.name = "at",
     .doc = "piecewise: steps of the points",
     .type = OPTION_INTS,
     .offset = offsetof(struct schedule, at),
     .count = offsetof(struct schedule, n_at),
     .capacity = SCHEDULE_POINTS,
     .high = INT64_MAX,
     .with = "kind=piecewise"},
    {.name = "rates",
     .doc = "piecewise: rates at these steps",
     .type = OPTION_REALS,
     .offset = offsetof(struct schedule, rates),
     .count = offsetof(struct schedule, n_rates),
     .capacity = SCHEDULE_POINTS,
     .maximum = HUGE_VAL,
     .with = "kind=piecewise"},
    OPTION(schedule, rate_of_step, CHOICE,
           "step k uses the rate before it, of k - 1 finished steps, or after it, of k",
           .fallback = "before", .choices = before_after),
};
const struct option_table schedule_table = {OPTION_ROWS(keys, schedule), .finish = finish};

static enum status count(const char *text, const char *what, int64_t steps, int64_t *out,
                         struct err *e)
{
    char *end;
    *out = 0;
    if (!text) return OK;
    double value = strtod(text, &end);
    const bool share = *end == '%';
    NEED(end > text && !end[share] && value >= 0 && value <= (share ? 100 : (double)INT32_MAX) &&
             (share || value == floor(value)),
         ERR_USAGE, "%s: expected a number of steps or a percentage of them, found %s", what, text);
    *out = (int64_t)(share ? value / 100 * (double)steps : value);
    return OK;
}

enum status schedule_resolve(struct schedule *s, int64_t first, int64_t steps, struct err *e)
{
    s->total = first + steps;
    PASS(count(s->warmup, "schedule.warmup", steps, &s->warmup_steps, e));
    PASS(count(s->decay, "schedule.decay", steps, &s->decay_steps, e));
    if (s->kind == SCHEDULE_DECAY) s->decay_steps = steps;
    s->decay_from = s->total - s->decay_steps;
    NEED(s->warmup_steps + s->decay_steps <= s->total, ERR_USAGE,
         "schedule: %lld steps of warm-up and %lld of decay are more than the run's %lld",
         (long long)s->warmup_steps, (long long)s->decay_steps, (long long)s->total);
    return OK;
}

/* From the peak at x = 0 to the end at x = 1. */
static double decay(const struct schedule *s, double x)
{
    const double span = s->end - s->peak;
    if (s->shape == SHAPE_ONE_MINUS_SQRT) return s->end - span * (1 - sqrt(x));
    if (s->shape == SHAPE_COSINE) return s->end - 0.5 * span * (1 + cos(acos(-1) * x));
    return s->peak + span * x;
}

static double piecewise(const struct schedule *s, int64_t t)
{
    int64_t i = 0;
    if (t <= s->at[0]) return s->rates[0];
    while (i < s->n_at && s->at[i] < t) i++;
    if (i == s->n_at) return s->rates[i - 1];
    const double x = (double)(t - s->at[i - 1]) / (double)(s->at[i] - s->at[i - 1]);
    return s->rates[i - 1] + (s->rates[i] - s->rates[i - 1]) * x;
}

static double neox_cosine(const struct schedule *s, int64_t t)
{
    const int64_t at = min64(t, s->total - s->warmup_steps) - s->warmup_steps;
    return fmax(s->end, s->peak / 2 * (1 + cos(acos(-1) * (double)at / (double)s->total)));
}

double schedule_rate(const struct schedule *s, int64_t t)
{
    const int64_t W = s->warmup_steps;
    if (s->kind == SCHEDULE_PIECEWISE) return piecewise(s, t);
    if (W > 0 && t <= W) return s->start + (s->peak - s->start) / (double)W * (double)t;
    const double span = (double)max64(s->total - W, 1);
    const double x = fmin(1, (double)(t - W) / span);
    switch (s->kind) {
    case SCHEDULE_COSINE:
        return s->end + 0.5 * (s->peak - s->end) * (1 + cos(acos(-1) * x));
    case SCHEDULE_NEOX_COSINE:
        return neox_cosine(s, t);
    case SCHEDULE_LINEAR:
        return s->peak + (s->end - s->peak) * x;
    case SCHEDULE_INVERSE_SQRT:
        return s->peak * sqrt((double)max64(W, 1) / (double)max64(t, 1));
    case SCHEDULE_WSD:
    case SCHEDULE_DECAY:
        if (t > s->decay_from)
            return decay(s, (double)(t - s->decay_from) / (double)max64(s->decay_steps, 1));
        return s->peak;
    default:
        return s->peak;
    }
}

double schedule_rate_of_step(const struct schedule *s, int64_t k)
{
    return schedule_rate(s, s->rate_of_step == RATE_BEFORE ? k - 1 : k);
}

const char *schedule_phase(const struct schedule *s, int64_t t)
{
    const bool staged = s->kind == SCHEDULE_WSD || s->kind == SCHEDULE_DECAY;
    if (s->kind == SCHEDULE_PIECEWISE || s->kind == SCHEDULE_CONSTANT)
        return t < s->warmup_steps ? "warmup" : "stable";
    if (t < s->warmup_steps) return "warmup";
    return !staged || t > s->decay_from ? "decay" : "stable";
}

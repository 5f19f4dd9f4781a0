#include "curvature/critical.h"
#include "checkpoint/derived.h"
#include <math.h>

static const double step_min = 1.0 / 1024, step_max = 1024, tolerance = 1.0 / 16;

struct search {
    const struct critical_line *line;
    double start, last; /* losses at step 0 and at the one tried last */
    struct critical *out;
};

static enum status rises(struct search *s, double step, bool *risen, struct err *e)
{
    PASS(s->line->loss(s->line->context, step, &s->last, e));
    s->out->passes++;
    *risen = !(s->last <= s->start);
    return OK;
}

/* Brackets the step between two powers of two. */
static enum status bracket(struct search *s, struct err *e)
{
    struct critical *out = s->out;
    bool risen;
    PASS(rises(s, 1, &risen, e));
    if (risen) {
        out->high = 1;
        while (out->low == 0 && out->high > step_min) {
            PASS(rises(s, out->high / 2, &risen, e));
            *(risen ? &out->high : &out->low) = out->high / 2;
        }
        NEED(out->low > 0 || !isnan(s->last), ERR_NUMERIC,
             "the loss is not a number so near as a step of 1/1024: are the weights at the other "
             "end damaged?");
    } else {
        out->low = 1;
        while (isinf(out->high) && out->low < step_max) {
            PASS(rises(s, out->low * 2, &risen, e));
            *(risen ? &out->high : &out->low) = out->low * 2;
        }
    }
    return OK;
}

enum status critical_search(const struct critical_line *line, double start, struct critical *out,
                            struct err *e)
{
    struct search s = {.line = line, .start = start, .out = out};
    bool risen;
    *out = (struct critical){.sharpness = NAN, .high = INFINITY};
    PASS(bracket(&s, e));
    while (out->low > 0 && isfinite(out->high) && 1 - out->low / out->high > tolerance) {
        double middle = (out->low + out->high) / 2;
        PASS(rises(&s, middle, &risen, e));
        *(risen ? &out->high : &out->low) = middle;
    }
    out->sharpness = out->low == 0 ? INFINITY : isinf(out->high) ? 0 : 4 / (out->low + out->high);
    return OK;
}

/* --- between two checkpoints --- */

struct between {
    const struct checkpoint *from, *to;
    double sign;
    const struct critical_loss *loss;
};

static enum status loss_at(void *context, double step, double *loss, struct err *e)
{
    const struct between *b = context;
    CLEANUP(checkpoint_close_at) struct checkpoint *c = NULL;
    const struct checkpoint_part parts[2] = {{1 - b->sign * step, b->from},
                                             {b->sign * step, b->to}};
    enum status st = checkpoint_combine(parts, 2, &c, e);
    st = b->loss->of(b->loss->context, st, c, loss, e);
    return st;
}

enum status critical_between(const struct checkpoint *from, const struct checkpoint *to,
                             double sign, const struct critical_loss *loss, double start,
                             struct critical *out, struct err *e)
{
    struct between b = {from, to, sign, loss};
    const struct critical_line line = {loss_at, &b};
    return critical_search(&line, start, out, e);
}

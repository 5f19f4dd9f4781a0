#include "curvature/power.h"
#include "curvature/vector.h"
#include "util/mem.h"
#include <float.h>
#include <math.h>

/* PyHessian's guard against division by zero; used here for the same last digits. */
static const double tiny = 1e-6;

bool eigenpair_converged(const struct eigenpair *p, double tolerance, double scale)
{
    return p->residual <= fmax(tolerance * fabs(p->value), 16 * (double)FLT_EPSILON * fabs(scale));
}

/* The state between two products. */
struct iteration {
    const struct space *space;
    struct power_result *out;
    double old;
    float *v; // (space.n)
};

static void move(void *context, struct saved_move *m)
{
    struct iteration *i = context;
    saved_bytes(m, i->out, sizeof *i->out);
    saved_bytes(m, &i->old, sizeof i->old);
    saved_bytes(m, i->v, i->space->n * (int64_t)sizeof *i->v);
}

static bool stops(const struct power_options *o, double old, double value, double residual,
                  int64_t iteration)
{
    const double change = fabs(old - value) / (fabs(old) + tiny);
    const double measure = o->stop == POWER_RESIDUAL ? residual / fabs(value) : change;
    forecast_note(o->forecast, iteration, measure, o->tolerance, o->products);
    if (o->stop == POWER_RESIDUAL) return residual <= o->tolerance * fabs(value);
    return iteration > 1 && change < o->tolerance;
}

/* v := v / (‖v‖ + guard), twice, as PyHessian does with each new vector: after the product, and
 * again when it orthogonalises against earlier eigenvectors (there are none). */
static void normalise(const struct space *s, double guard, float *v)
{
    for (int pass = 0; pass < 2; pass++) {
        double norm = vector_norm(s, v) + guard;
        if (norm > 0) vector_scale(s->n, 1 / norm, v, v);
    }
}

enum status power_iterate(const struct operator* a, const struct power_options *o, float *vector,
                          struct power_result *out, struct err *e)
{
    enum status st = OK;
    const struct space *s = &a->space;
    float *v = vector, *hv = NULL;
    double guard = o->stop == POWER_PYHESSIAN ? tiny : 0;
    struct iteration at = {.space = s, .out = out, .v = v};
    struct saved_level level = {.name = "power iteration", .move = move, .context = &at};
    bool loaded;
    *out = (struct power_result){0};
    ENSURE(s->total > 0 && o->products > 0, ERR_USAGE,
           "power iteration with %lld numbers and %lld products: expected some of both",
           (long long)s->total, (long long)o->products);
    TRY(mem_alloc(&hv, s->n, sizeof *hv, "the product of power iteration", e));
    TRY(vector_start(o->stream, s, o->start, v, e));
    normalise(s, guard, v);
    TRY(saved_enter(a->saved, &level, &loaded, e));
    for (;;) {
        TRY(saved_point(a->saved, e));
        const float *x = v;
        TRY(a->apply(a->context, 1, &x, &hv, e));
        out->iterations++;
        double value = vector_dot(s, v, hv);
        ENSURE(isfinite(value), ERR_NUMERIC, "product %lld of power iteration is not finite",
               (long long)out->iterations);
        double residual = vector_distance(s, hv, value, v);
        bool stop = stops(o, at.old, value, residual, out->iterations);
        bool returns_old = stop && o->stop == POWER_PYHESSIAN;
        out->top.value = returns_old ? at.old : value;
        out->top.residual = returns_old ? vector_distance(s, hv, at.old, v) : residual;
        if (stop || out->iterations >= o->products) break;
        at.old = value;
        normalise(s, guard, hv);
        vector_scale(s->n, 1, hv, v);
    }
    out->top.converged = eigenpair_converged(&out->top, o->tolerance, out->top.value);
done:
    saved_leave(a->saved, &level);
    free(hv);
    return st;
}

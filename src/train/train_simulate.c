#include "train/train_simulate.h"
#include "util/mem.h"
#include <math.h>

/* When the run can begin; infinite until its parent has begun, and once it has begun itself. */
static double ready(const struct runs *all, int64_t i, const double *seconds, const double *begun)
{
    const struct run *r = &all->runs[i];
    if (isfinite(begun[i])) return INFINITY;
    if (r->parent < 0) return 0;
    const struct run *p = &all->runs[r->parent];
    const double part = (double)(r->first - p->first) / (double)(p->last - p->first);
    return begun[r->parent] + part * seconds[r->parent];
}

enum status train_simulate(const struct runs *all, const bool *wanted, const double *seconds,
                           int64_t groups, double *out, struct err *e)
{
    AUTO_FREE double *free_at = NULL, *begun = NULL; // (groups), (all->n)
    int64_t left = 0;
    *out = 0;
    PASS(mem_zero(&free_at, groups, sizeof *free_at, "groups of ranks", e));
    PASS(mem_alloc(&begun, all->n, sizeof *begun, "runs", e));
    for (int64_t i = 0; i < all->n; i++) {
        begun[i] = INFINITY;
        left += wanted[i];
    }
    for (; left > 0; left--) {
        int64_t group = 0, run = -1;
        for (int64_t g = 1; g < groups; g++)
            if (free_at[g] < free_at[group]) group = g;
        double when = INFINITY; /* of the run that can begin first, if none can now */
        for (int64_t i = 0; i < all->n && when > free_at[group]; i++) {
            const double at = wanted[i] ? ready(all, i, seconds, begun) : INFINITY;
            if (at >= when) continue;
            when = at;
            run = i;
        }
        begun[run] = fmax(when, free_at[group]);
        free_at[group] = begun[run] + seconds[run];
        *out = fmax(*out, free_at[group]);
    }
    return OK;
}

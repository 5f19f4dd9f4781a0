#include "engine/pace.h"
#include "util/clock.h"
#include "util/hash.h"
#include "util/ratio.h"
#include <string.h>

/* The weight of what is known before, beside what is measured, as a share of the plan. */
static const double weight_before = 0.002;

/* The clock of the running part goes on from now. */
static void advance(struct pace *p)
{
    const double now = clock_seconds(), seconds = now - p->since;
    p->since = now;
    if (p->preparing)
        p->once += seconds;
    else if (p->part >= 0)
        p->own[p->part].taken += seconds;
}

static struct pace_measured sum(const struct pace_measured *a, const struct pace_measured *b)
{
    return (struct pace_measured){a->planned + b->planned, a->needed + b->needed,
                                  a->taken + b->taken};
}

/* Time taken by what was needed, over what was planned for it. */
static double ratio_of(const struct pace_measured *m)
{
    return m->needed > 0 ? m->taken / m->needed : 1;
}

/* Planned seconds of the part that will still be needed, judging by earlier visits. */
static double needed(const struct pace *p, int part)
{
    const struct pace_measured *past = &p->past->parts[part];
    const double most = p->ahead[part] * p->planned[part];
    if (past->planned <= 0) return most;
    const double usual = past->needed / past->planned * p->planned[part] - p->own[part].needed;
    return usual > 0 && usual < most ? usual : most;
}

double pace_left(const struct pace *p)
{
    struct pace_measured all = {0};
    double left = 0;
    for (int i = 0; i < MEASURES_N; i++) {
        const struct pace_measured here = sum(&p->past->parts[i], &p->own[i]);
        if (here.needed > 0) all = sum(&all, &here);
    }
    for (int i = 0; i < MEASURES_N; i++) {
        struct pace_measured here = sum(&p->past->parts[i], &p->own[i]);
        const double weight = weight_before * p->planned[i];
        if (p->planned[i] <= 0) continue;
        if (here.needed <= 0) here.taken = 0; /* it has just begun */
        here.needed += weight;
        here.taken += weight * ratio_carried(all.needed, all.taken, p->planned[i]);
        left += needed(p, i) * ratio_of(&here);
    }
    return left;
}

static void tell(struct pace *p, bool last)
{
    advance(p);
    if (p->part >= 0)
        p->hooks->progress(p->hooks->context, measures[p->part]->doing, pace_left(p), p->once,
                           last);
}

void pace_open(struct pace *p, const struct visit *v, const struct visit_hooks *hooks,
               struct visit_cache *cache)
{
    const uint64_t model = hash_u64(v->model, strlen(v->model));
    *p = (struct pace){.hooks = hooks, .past = &cache->past, .part = -1, .since = clock_seconds()};
    if (p->past->model != model) *p->past = (struct pace_past){.model = model};
    for (int i = 0; i < MEASURES_N; i++) {
        p->ahead[i] = 1;
        if (hooks->planned) p->planned[i] = hooks->planned[i];
    }
}

void pace_close(struct pace *p)
{
    if (!p->hooks->progress) return;
    for (int i = 0; i < MEASURES_N; i++) p->ahead[i] = 0;
    tell(p, true);
    for (int i = 0; i < MEASURES_N; i++) {
        if (p->own[i].needed > 0) p->own[i].planned = p->planned[i];
        p->past->parts[i] = sum(&p->past->parts[i], &p->own[i]);
    }
}

void pace_begin(struct pace *p, int part)
{
    advance(p);
    if (p->part >= 0) p->ahead[p->part] = 0;
    p->part = part;
    if (p->hooks->progress) tell(p, false);
}

static void set_ahead(struct pace *p, double share)
{
    p->ahead[p->part] = share > 0 ? share : 0;
}

void pace_step(struct pace *p, double share)
{
    if (!p || p->part < 0) return;
    p->own[p->part].needed += share * p->planned[p->part];
    pace_skip(p, share);
    if (p->hooks->progress) tell(p, false);
}

void pace_skip(struct pace *p, double share)
{
    if (p && p->part >= 0) set_ahead(p, p->ahead[p->part] - share);
}

void pace_ahead(struct pace *p, double share)
{
    if (!p || p->part < 0) return;
    set_ahead(p, share);
    if (p->hooks->progress) tell(p, false);
}

void pace_prepare(struct pace *p, bool begins)
{
    if (!p) return;
    advance(p);
    p->preparing = begins;
}

#include "sched/watch.h"
#include "sched/simulate.h"
#include "util/mem.h"
#include <stdio.h>
#include <stdlib.h>

static const double never = 1e300;

enum status watch_open(struct watch *w, const struct sched_sink *sink, int64_t workers,
                       struct err *e)
{
    w->sink = sink;
    w->workers = workers;
    PASS(mem_zero(&w->piece, 1 + workers, sizeof *w->piece, "leaders", e));
    PASS(mem_zero(&w->hand, 1 + workers, sizeof *w->hand, "leaders", e));
    PASS(mem_zero(&w->until, 1 + workers, sizeof *w->until, "leaders", e));
    return mem_zero(&w->groups, 1 + workers, sizeof *w->groups, "leaders", e);
}

void watch_close(struct watch *w)
{
    free(w->piece);
    free(w->hand);
    free(w->until);
    free(w->groups);
}

void watch_begin(struct watch *w, int leader, const char *name, double now)
{
    w->piece[leader] = (struct watch_piece){.name = name, .start = now, .busy = true};
}

void watch_end(struct watch *w, int leader)
{
    w->piece[leader].busy = false;
}

void watch_note(struct watch *w, int leader, const char *what)
{
    struct watch_piece *p = &w->piece[leader];
    snprintf(p->what, sizeof p->what, "%s", what);
}

/* When each group of the class can begin: once all its ranks are free of earlier classes. Ranks
 * that make no whole group get nothing. */
static void find_groups(const struct watch *w, const struct watch_class *c, int64_t n, double now)
{
    const int64_t whole = w->workers < c->ranks ? 1 : w->workers / c->ranks;
    for (int64_t g = 0; g < n; g++) w->groups[g] = g < whole ? now : never;
    for (int64_t i = 0; i < w->workers; i++)
        if (w->until[i] > w->groups[i / c->ranks]) w->groups[i / c->ranks] = w->until[i];
}

/* Moves w->until to when the class is done, too. */
static enum status forecast_class(struct watch *w, const struct watch_class *c, double now,
                                  struct err *e)
{
    const int64_t n = (w->workers - 1) / c->ranks + 1;
    find_groups(w, c, n, now);
    if (w->stopping)
        for (int64_t g = 0; g < n; g++) w->groups[g] = now + queue_left(c->queue, g, now);
    else
        PASS(sched_forecast(c->queue, n, now, w->groups, e));
    for (int64_t i = 0; i < w->workers; i++)
        if (w->groups[i / c->ranks] < never) w->until[i] = w->groups[i / c->ranks];
    return OK;
}

static int older(const void *a, const void *b)
{
    const struct sched_hand *x = a, *y = b;
    return (x->seconds < y->seconds) - (x->seconds > y->seconds);
}

enum status watch_tell(struct watch *w, const struct watch_class *classes, int64_t n, double now,
                       struct err *e)
{
    struct sched_progress p = {.hand = w->hand};
    if (!w->sink->watch || now < w->next) return OK;
    for (int64_t i = 0; i < w->workers; i++) w->until[i] = now;
    for (int64_t i = 0; i < n; i++) PASS(forecast_class(w, &classes[i], now, e));
    for (int64_t i = 0; i < w->workers; i++)
        if (w->until[i] - now > p.left) p.left = w->until[i] - now;
    for (int64_t i = 0; i <= w->workers; i++) {
        const struct watch_piece *one = &w->piece[i];
        if (one->busy)
            w->hand[p.n++] = (struct sched_hand){one->name, one->what, (int)i, now - one->start};
    }
    qsort(w->hand, (size_t)p.n, sizeof *w->hand, older);
    w->next = now + w->sink->watch(w->sink->context, &p);
    return OK;
}

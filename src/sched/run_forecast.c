#include "sched/run_forecast.h"
#include "sched/simulate.h"
#include "util/mem.h"

static const double never = 1e300;

enum status run_forecast_open(struct run_forecast *f, const struct sched_sink *sink,
                              int64_t workers, struct err *e)
{
    f->sink = sink;
    f->workers = workers;
    PASS(mem_zero(&f->running, 1 + workers, sizeof *f->running, "leaders", e));
    PASS(mem_zero(&f->until, 1 + workers, sizeof *f->until, "leaders", e));
    return mem_zero(&f->groups, 1 + workers, sizeof *f->groups, "leaders", e);
}

void run_forecast_close(struct run_forecast *f)
{
    free(f->running);
    free(f->until);
    free(f->groups);
}

/* Moves f->until to when the class is done, too. */
static enum status forecast_class(struct run_forecast *f, const struct sched_class *c, double now,
                                  struct err *e)
{
    const int64_t n = (f->workers - 1) / c->ranks + 1;
    /* When each group of the class can begin: once all its ranks are free of earlier classes. Ranks
     * that make no whole group get nothing. */
    const int64_t whole = f->workers < c->ranks ? 1 : f->workers / c->ranks;
    for (int64_t g = 0; g < n; g++) f->groups[g] = g < whole ? now : never;
    for (int64_t i = 0; i < f->workers; i++)
        if (f->until[i] > f->groups[i / c->ranks]) f->groups[i / c->ranks] = f->until[i];
    if (f->stopping)
        for (int64_t g = 0; g < n; g++) f->groups[g] = now + queue_left(c->queue, g, now);
    else
        PASS(sched_forecast(c->queue, n, now, f->groups, e));
    for (int64_t i = 0; i < f->workers; i++)
        if (f->groups[i / c->ranks] < never) f->until[i] = f->groups[i / c->ranks];
    return OK;
}

static int older(const void *a, const void *b)
{
    const struct sched_running *x = a, *y = b;
    return (x->seconds < y->seconds) - (x->seconds > y->seconds);
}

bool run_forecast_due(const struct run_forecast *f, double now)
{
    return f->sink->progress && now >= f->next;
}

enum status run_forecast_send(struct run_forecast *f, const struct sched_class *classes, int64_t n,
                              int64_t n_running, double now, struct err *e)
{
    struct sched_progress p = {.n = n_running, .running = f->running};
    for (int64_t i = 0; i < f->workers; i++) f->until[i] = now;
    for (int64_t i = 0; i < n; i++) PASS(forecast_class(f, &classes[i], now, e));
    for (int64_t i = 0; i < f->workers; i++)
        if (f->until[i] - now > p.left) p.left = f->until[i] - now;
    qsort(f->running, (size_t)n_running, sizeof *f->running, older);
    f->next = now + f->sink->progress(f->sink->context, &p);
    return OK;
}

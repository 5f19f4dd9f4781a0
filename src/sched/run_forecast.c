#include "sched/run_forecast.h"
#include "util/mem.h"

/* Lets the queue run out; until (n_groups): when each group is free, and at last when it is done.
 * Returns the seconds of the batches that it handed out. */
static double go_on(struct queue *q, int64_t n_groups, double *until)
{
    double work = 0;
    for (;;) {
        /* The group that is free next; ties go to the first. */
        int64_t group = 0;
        for (int64_t i = 1; i < n_groups; i++)
            if (until[i] < until[group]) group = i;
        struct queue_batch batch;
        queue_finish(q, group, until[group], false);
        if (!queue_take(q, group, until[group], &batch)) return work;
        until[group] += batch.expected;
        work += batch.expected;
    }
}

enum status sched_simulate(const struct sched_job *jobs, int64_t n, int64_t n_groups,
                           struct sched_simulation *out, struct err *e)
{
    AUTO_FREE double *until = NULL; // (n_groups) when the batch in flight ends
    CLEANUP(queue_close_at) struct queue *q = NULL;
    struct sched_simulation s = {.n_groups = n_groups};
    struct sched_outcome outcome = {0};
    NEED(n_groups >= 1, ERR_USAGE, "%lld groups, expected at least 1", (long long)n_groups);
    PASS(mem_zero(&until, n_groups, sizeof *until, "groups", e));
    PASS(queue_open(jobs, n, n_groups, NULL, &q, e));
    s.work = go_on(q, n_groups, until);
    for (int64_t i = 0; i < n_groups; i++)
        if (until[i] > s.makespan) s.makespan = until[i];
    for (int64_t i = 0; i < n; i++) {
        s.least += jobs[i].cost;
        for (int64_t j = 0; j < jobs[i].n_parts; j++) s.least += jobs[i].parts[j];
    }
    queue_outcome(q, &outcome);
    s.batches = outcome.batches;
    s.idle = s.makespan > 0 ? 1 - s.work / (s.makespan * (double)n_groups) : 0;
    *out = s;
    return OK;
}

enum status sched_forecast(const struct queue *q, int64_t n_groups, double now, double *until,
                           struct err *e)
{
    CLEANUP(queue_close_at) struct queue *ahead = NULL;
    PASS(queue_clone(q, &ahead, e));
    for (int64_t g = 0; g < n_groups; g++) {
        double left = queue_left(ahead, g, now);
        if (left > 0) until[g] = now + left;
    }
    go_on(ahead, n_groups, until);
    return OK;
}

/* --- forecast of a run --- */

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

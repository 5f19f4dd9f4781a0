#include "sched/simulate.h"
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

/* simulate: the schedule that the queue (queue.h) makes if jobs take exactly as long as planned,
 * or from some moment of a run on, as long as expected then. */
#pragma once
#include "sched/queue.h"

struct sched_simulation {
    double makespan; /* until the last batch ends */
    double work;     /* sum over all batches, repeated shared parts included */
    double least;    /* the same if no job were cut */
    double idle;     /* share of makespan x groups that groups waited */
    int64_t batches, n_groups;
};

/* ERR_NOMEM; ERR_USAGE: no groups, or a cost that is no number. */
MUST_USE enum status sched_simulate(const struct sched_job *jobs, int64_t n, int64_t n_groups,
                                    struct sched_simulation *out, struct err *e);

/* until[group] (n_groups of the queue) = when the group will have ended its last batch; before:
 * when it can begin one at the earliest, which does not matter to one that has a batch. The queue
 * stays as it is. ERR_NOMEM. */
MUST_USE enum status sched_forecast(const struct queue *q, int64_t n_groups, double now,
                                    double *until, struct err *e);

/* simulate: the schedule that the queue (queue.h) makes if tasks take exactly as long as planned,
 * or from some moment of a run on, as long as expected then. */
#pragma once
#include "sched/queue.h"

struct sched_simulation {
    double makespan; /* until the last piece ends */
    double work;     /* sum over all pieces, repeated shared parts included */
    double least;    /* the same if no task were cut */
    double idle;     /* share of makespan x groups that groups waited */
    int64_t pieces, n_groups;
};

/* ERR_NOMEM; ERR_USAGE: no groups, or a cost that is no number. */
MUST_USE enum status sched_simulate(const struct sched_task *tasks, int64_t n, int64_t n_groups,
                                    struct sched_simulation *out, struct err *e);

/* until[group] (n_groups of the queue) = when the group will have ended its last piece; before:
 * when it can begin one at the earliest, which does not matter to one that has a piece. The queue
 * stays as it is. ERR_NOMEM. */
MUST_USE enum status sched_forecast(const struct queue *q, int64_t n_groups, double now,
                                    double *until, struct err *e);

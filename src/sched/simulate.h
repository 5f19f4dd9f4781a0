/* simulate: what the queue (queue.h) would do with tasks that take exactly as long as planned. */
#pragma once
#include "sched/sched.h"

struct sched_simulation {
    double makespan; /* until the last piece ends */
    double work;     /* sum of what the groups did, shared parts repeated */
    double least;    /* sum of the tasks in one piece each */
    double idle;     /* share of makespan x groups that groups waited */
    int64_t pieces, n_groups;
};

/* ERR_NOMEM, ERR_USAGE. */
MUST_USE enum status sched_simulate(const struct sched_task *tasks, int64_t n, int64_t n_groups,
                                    struct sched_simulation *out, struct err *e);

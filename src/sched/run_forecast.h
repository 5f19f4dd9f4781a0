/* run_forecast: when the run will be done, and what its sink hears of it; the schedule that the
 * queue (queue.h) makes if jobs take exactly as long as planned. */
#pragma once
#include "sched/queue.h"

/* Jobs that ask for the same number of ranks. */
struct sched_class {
    int64_t ranks;
    int64_t first, n; /* in the master's jobs */
    int64_t *node;    // (groups of this class at most) the node of each leader
    struct queue *queue;
};

/* Zero-initialise; run_forecast_close. */
struct run_forecast {
    const struct sched_sink *sink;
    int64_t workers;
    bool stopping;                 /* nothing more is handed out */
    double next;                   /* clock_seconds at which the sink hears of it again */
    struct sched_running *running; // (1 + workers) for run_forecast_send
    double *until, *groups;        // (1 + workers) working memory
};
/* For so many workers; a single rank is one. ERR_NOMEM. */
MUST_USE enum status run_forecast_open(struct run_forecast *f, const struct sched_sink *sink,
                                       int64_t workers, struct err *e);
void run_forecast_close(struct run_forecast *f);

/* Whether it is time to tell the sink; now: clock_seconds. */
bool run_forecast_due(const struct run_forecast *f, double now);
/* Tells it. classes (n) by decreasing ranks, as groups form for them; the first n_running of
 * f->running are filled. ERR_NOMEM. */
MUST_USE enum status run_forecast_send(struct run_forecast *f, const struct sched_class *classes,
                                       int64_t n, int64_t n_running, double now, struct err *e);

/* --- simulation of a whole schedule --- */

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

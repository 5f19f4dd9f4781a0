/* run_forecast: when the run will be done, and what its sink hears of it. */
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

/* watch: what the master knows of the pieces in hand, and how far the run is with them. */
#pragma once
#include "sched/queue.h"

/* Tasks that ask for the same number of ranks, and the groups that work on them. */
struct watch_class {
    struct queue *queue;
    int64_t ranks;
};

/* What a leader works on. */
struct watch_piece {
    const char *name;
    char what[32];
    double start;
    bool busy;
};

/* Zero-initialise; watch_close. */
struct watch {
    const struct sched_sink *sink;
    int64_t workers;
    bool stopping;             /* nothing more is handed out */
    double next;               /* clock_seconds at which the sink is told again */
    struct watch_piece *piece; // (1 + workers) by rank
    struct sched_hand *hand;   // (1 + workers) working memory
    double *until, *groups;    // (1 + workers) likewise
};
/* For so many workers; a single rank is one, of rank 0. ERR_NOMEM. */
MUST_USE enum status watch_open(struct watch *w, const struct sched_sink *sink, int64_t workers,
                                struct err *e);
void watch_close(struct watch *w);

/* The leader has begun a task (name may be NULL), or ended its piece. */
void watch_begin(struct watch *w, int leader, const char *name, double now);
void watch_end(struct watch *w, int leader);
/* The leader says what it does. */
void watch_note(struct watch *w, int leader, const char *what);

/* Tells the sink how far the run is if it is time. classes (n) by decreasing ranks, as groups form
 * for them; now: clock_seconds. ERR_NOMEM. */
MUST_USE enum status watch_tell(struct watch *w, const struct watch_class *classes, int64_t n,
                                double now, struct err *e);

/* queue: decides which piece of which task a group gets next. Time is an argument, so that the
 * master and a simulation (simulate.h) make the same decisions.
 *
 * Tasks with a saved state go first, so that states do not pile up; then the longest. Since each
 * piece of a task repeats its shared part, a task is handed out whole unless it alone would take
 * longer than an even share of the remaining work; then it is cut, and the rest of it stays one
 * task; one with a saved state, which pieces cannot use, only if that is quicker than to continue.
 * Costs are corrected by how long finished tasks of the same kind took. Among tasks of similar
 * length a group takes one whose files its node has read.
 *
 * If the time is limited, a task is handed out only if it is expected to end within it, or saves
 * its state; of a task that is too long, as many parts as fit.
 */
#pragma once
#include "sched/sched.h"

struct queue;

/* tasks (n) is borrowed and must outlive the queue; node (n_groups): the node of each group, NULL:
 * one node per group. The caller closes. ERR_NOMEM; ERR_USAGE: a cost is negative or not finite. */
MUST_USE enum status queue_open(const struct sched_task *tasks, int64_t n, int64_t n_groups,
                                const int64_t *node, struct queue **out, struct err *e);
void queue_close(struct queue *q);

/* At `end` (as `now` below) the work will be broken off; INFINITY, the default: never. */
void queue_limit(struct queue *q, double end);

struct queue_piece {
    int64_t task;         /* index into tasks */
    const int64_t *parts; /* ascending, borrowed until the group's next piece */
    int64_t n_parts;      /* 0: a task without parts */
    double expected;      /* cost, corrected */
};

/* The next piece for the group, which must not have one; false: everything is handed out, or what
 * is left cannot end in time. */
bool queue_take(struct queue *q, int64_t group, double now, struct queue_piece *out);

/* The rest of the group's piece is expected to take `left` seconds from now on; `once`: seconds so
 * far that went into what later pieces find ready, and do not count as the piece's own. */
void queue_report(struct queue *q, int64_t group, double now, double left, double once);
/* Seconds that the group's piece still takes: as it reported, else as its cost says; 0: it has
 * none.
 */
double queue_left(const struct queue *q, int64_t group, double now);

/* The group's piece has ended. dropped: unfinished; it is not handed out again. */
void queue_finish(struct queue *q, int64_t group, double now, bool dropped);

/* The parts of the group's piece (a task without parts: none), borrowed until its next piece. */
const int64_t *queue_parts(const struct queue *q, int64_t group, int64_t *n);
/* The group's piece has ended unfinished. again: n of its parts (a task without parts: all of it)
 * are to be handed out again; else they count as finished. */
void queue_return(struct queue *q, int64_t group, const int64_t *parts, int64_t n, bool again);

/* True if everything is handed out. */
bool queue_empty(const struct queue *q);

/* Whether every part of the task is finished. */
bool queue_task_finished(const struct queue *q, int64_t task);
/* Adds to o the tasks of which every part is finished and the pieces handed out so far, and lowers
 * o->shortest to the expected seconds of the shortest piece that has not been handed out; 0: there
 * is none, or time has no limit. */
void queue_outcome(const struct queue *q, struct sched_outcome *o);

/* A queue that goes its own way from here on, in order to look ahead, without limit of time. Its
 * costs are corrected by what pieces in flight have reported, too. The caller closes. ERR_NOMEM. */
MUST_USE enum status queue_clone(const struct queue *q, struct queue **out, struct err *e);

/* queue: decides which batch of which job a group gets next. Time is an argument, so that the
 * master and a simulation (simulate.h) make the same decisions.
 *
 * Jobs with a saved state go first, so that states do not pile up; then the longest. Since each
 * batch of a job repeats its shared part, a job is assigned whole unless it by itself takes
 * longer than an even share of the remaining work; then it is cut, and the rest of it stays one
 * job; one with a saved state, which batches cannot use, only if that is quicker than to continue.
 * Costs are corrected by how long finished jobs of the same kind took. Among jobs of similar
 * length a group takes one whose files its node has read.
 *
 * If the time is limited, a job is assigned only if it is expected to end within it, or saves
 * its state; of a job that is too long, as many parts as fit.
 */
#pragma once
#include "sched/sched.h"

struct queue;

/* jobs (n) is borrowed and must outlive the queue; node (n_groups): the node of each group, NULL:
 * one node per group. The caller closes. ERR_NOMEM; ERR_USAGE: a cost is negative or not finite. */
MUST_USE enum status queue_open(const struct sched_job *jobs, int64_t n, int64_t n_groups,
                                const int64_t *node, struct queue **out, struct err *e);
void queue_close(struct queue *q);
CLEANUP_BY_VALUE(struct queue, queue_close);

/* At `end` (as `now` below) the work will be broken off; INFINITY, the default: never. */
void queue_limit(struct queue *q, double end);

struct queue_batch {
    int64_t job;          /* index into jobs */
    const int64_t *parts; /* ascending, borrowed until the group's next batch */
    int64_t n_parts;      /* 0: a job without parts */
    double expected;      /* cost, corrected */
};

/* The next batch for the group, which must not have one; false: everything is handed out, or what
 * is left cannot end in time. */
bool queue_take(struct queue *q, int64_t group, double now, struct queue_batch *out);

/* The rest of the group's batch is expected to take `left` seconds from now on; `once`: seconds so
 * far that went into what later batches find ready, and do not count as the batch's own. */
void queue_report(struct queue *q, int64_t group, double now, double left, double once);
/* Seconds that the group's batch still takes: as it reported, else as its cost says; 0: it has
 * none.
 */
double queue_left(const struct queue *q, int64_t group, double now);

/* The group's batch has ended. dropped: unfinished; it is not handed out again. */
void queue_finish(struct queue *q, int64_t group, double now, bool dropped);

/* The parts of the group's batch (a job without parts: none), borrowed until its next batch. */
const int64_t *queue_parts(const struct queue *q, int64_t group, int64_t *n);
/* The group's batch has ended unfinished. again: n of its parts (a job without parts: all of it)
 * are to be handed out again; else they count as finished. */
void queue_return(struct queue *q, int64_t group, const int64_t *parts, int64_t n, bool again);

/* True if everything is handed out. */
bool queue_empty(const struct queue *q);

/* Whether every part of the job is finished. */
bool queue_job_finished(const struct queue *q, int64_t job);
/* Adds to o the jobs of which every part is finished and the batches handed out so far, and lowers
 * o->shortest to the expected seconds of the shortest batch that has not been handed out; 0: there
 * is none, or time has no limit. */
void queue_outcome(const struct queue *q, struct sched_outcome *o);

/* A queue that goes its own way from here on, in order to look ahead, without limit of time. Its
 * costs are corrected by what batches in flight have reported, too. The caller closes. ERR_NOMEM.
 */
MUST_USE enum status queue_clone(const struct queue *q, struct queue **out, struct err *e);

/* queue: which piece of which task a group that asks gets next. Time is an argument, so that the
 * master and a simulation (simulate.h) decide alike.
 *
 * The longest task first. A task is handed out whole while that keeps no group waiting at the end,
 * because its pieces repeat its shared part; one that alone would take longer than an even share of
 * all that is left is cut, and what is not handed out stays together. Costs are corrected by how
 * long finished tasks of the same kind took. Between tasks of about the same length a group takes
 * one whose files its node has read.
 */
#pragma once
#include "sched/sched.h"

struct queue;

/* tasks stay the caller's and must outlive the queue; node (n_groups) says where each group lives,
 * NULL: each on a node of its own. ERR_NOMEM, ERR_USAGE (a cost that is no number). */
MUST_USE enum status queue_open(const struct sched_task *tasks, int64_t n, int64_t n_groups,
                                const int64_t *node, struct queue **out, struct err *e);
void queue_close(struct queue *q);

struct queue_piece {
    int64_t task;         /* index into tasks */
    const int64_t *parts; /* ascending, borrowed until the group's next piece */
    int64_t n_parts;      /* 0: a task without parts */
    bool whole;           /* all parts of the task at once */
    double expected;      /* cost, corrected */
};

/* The next piece for the group, which must not have one in hand; false: nothing is left. */
bool queue_take(struct queue *q, int64_t group, double now, struct queue_piece *out);

/* The group's piece is finished. dropped: it is not, and will not be given out again. */
void queue_finish(struct queue *q, int64_t group, double now, bool dropped);

/* Nothing is left to be handed out. */
bool queue_empty(const struct queue *q);

/* Tasks of which every part is finished; pieces that were handed out in all. */
int64_t queue_finished(const struct queue *q);
int64_t queue_pieces(const struct queue *q);

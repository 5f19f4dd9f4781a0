/* master: what rank 0 knows while others work; for master.c (messages) and losses.c (ranks that are
 * lost). */
#pragma once
#include "sched/queue.h"
#include "sched/sched_internal.h"
#include "sched/seats.h"
#include "sched/watch.h"

/* Tasks that ask for the same number of ranks. */
struct class
{
    int64_t ranks;
    int64_t first, n; /* in the master's tasks */
    int64_t *node;    // (groups of this class at most) the node of each leader
    struct queue *queue;
};

/* A seat that leads a group. */
struct leader {
    struct class *in;    /* class of its piece, NULL: it has none */
    int64_t group;       /* number of its group in that class */
    int64_t task;        /* of that class */
    double expected;     /* seconds that the piece should take */
    double begun, heard; /* link_clock: when it was handed out; last sign of progress */
    bool taken;          /* it has said that the piece has come */
    bool kept;           /* and that some of its work is kept */
    bool ended;          /* it has got END */
    bool waiting;        /* for a piece that may come back */
    bool vacant;         /* its group is lost, and to be replaced */
    bool fresh;          /* a replacement that has not been ready yet */
    int64_t size, class; /* as it said when it was ready */
};

struct master {
    MPI_Comm world;
    const int *node; // (ranks)
    const struct sched_sink *sink;
    const struct sched_rescue *rescue;
    struct seats seats;
    struct sched_task *tasks; // (n) by decreasing ranks
    int64_t n, workers;
    int64_t n_classes;
    struct class *classes;       // (n_classes) by decreasing ranks
    int64_t alive;               /* leaders that have not got END */
    int64_t busy, waiting;       /* leaders with a piece; that wait */
    struct watch watch;          /* how far the run is */
    struct watch_class *watched; // (n_classes) what it is told of them
    struct leader *leaders;      // (ranks) by seat
    bool stopping;               /* nothing more is handed out */
    bool stop_sent;              /* leaders with a piece have got STOP */
    bool dropped;                /* some piece was dropped */
    bool lost, abandoned;        /* a rank was; and the run cannot go on */
    bool irreplaceable;          /* no more replacements are tried */
    int64_t vacant;              /* groups to be replaced */
    double lost_last;            /* clock_seconds of the last loss */
    int64_t stillborn;           /* replacements in a row that died before they were ready */
    double looked;               /* link_clock of the last look at the ranks */
    enum status st;              /* first failure */
};

/* Keeps the first failure, after which nothing more is handed out. */
void master_note(struct master *m, enum status st);
/* After a piece of the task of class c has ended or was given up: tells the sink if nothing of it
 * is left. */
void master_tell_finished(const struct master *m, const struct class *c, int64_t task);
/* Answers the leaders that wait. ERR_MPI, ERR_NOMEM. */
MUST_USE enum status master_answer_waiting(struct master *m, struct err *e);

/* Finds ranks that have died, are silent, or make no progress; writes off their groups, returns
 * their pieces to the queue and replaces them where MPI can. Without that, m->abandoned. Errors: of
 * rescue->lose, ERR_MPI, ERR_NOMEM. */
MUST_USE enum status losses_look(struct master *m, struct err *e);

/* sched: hands tasks to groups of ranks and their results to one master. It knows no science: a
 * task and a result are texts, what runs a task is a function pointer.
 *
 * Rank 0 of the communicator is the master; the other ranks form groups, each with a
 * sub-communicator whose rank 0, the leader, speaks to the master. A task says how many ranks are
 * to work on it: groups form for the tasks that want most of them, and one that finds no more of
 * those splits for the tasks that want less. Ranks that are left over form a group for those too;
 * where there are too few of them for any, they make the other groups larger. A single rank is
 * master and worker at once. A waiting rank backs off and costs no core.
 *
 * Signals (sched_catch_signals): SIGUSR1 drains, i.e. tasks in hand are finished and no further one
 * is handed out; SIGTERM and SIGINT drop what is in hand. Either way sched_run returns normally and
 * says so in the outcome.
 */
#pragma once
#include "util/err.h"
#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

struct sched_task {
    char *text;  /* self-contained, owned by the caller */
    double cost; /* expected seconds: of the whole task, or of what its parts share */
    /* A task may be cut into pieces of some of its parts each, which run on their own and repeat
     * the shared part. */
    int64_t n_parts; /* 0: never cut */
    double *parts;   // (n_parts) what each part adds to the cost, owned by the caller
    int64_t ranks;   /* that work on it together; 0: one. Fewer, if there are not as many */
    int64_t kind;    /* from 0 on; how long a task took corrects the costs of its kind */
    int64_t files;   /* from 1 on: what it reads, for nodes that have read it before; 0: nothing */
};

/* What a group gets to run: a task, or a piece of one. */
struct sched_piece {
    const char *text;
    int64_t n_parts;      /* 0: a task without parts */
    const int64_t *parts; // (n_parts) ascending
};

/* How a running task reports: belongs to sched, valid during the task. */
struct sched_port;

/* Sends one result text to the master. Called on the leader only; other ranks' calls do nothing.
 * ERR_MPI. */
MUST_USE enum status sched_send(struct sched_port *port, const char *result, struct err *e);

/* True when the task should be dropped now. Collective on the group; every rank gets the same
 * answer. Cheap: a task asks once a block of the network. */
bool sched_should_stop(struct sched_port *port);

struct sched_work {
    /* Runs a piece. Collective on group: all its ranks call it with the same piece. ERR_STOPPED:
     * dropped because sched_should_stop said so; any other error ends the whole run (failures of a
     * task's own are results). */
    enum status (*run)(void *context, MPI_Comm group, const struct sched_piece *piece,
                       struct sched_port *port, struct err *e);
    void *context;
};

struct sched_sink {
    /* Takes one result, on the master. An error stops the run: nothing more is handed out, tasks in
     * hand are dropped. */
    enum status (*accept)(void *context, const char *result, struct err *e);
    /* Called on the master whenever no message is waiting, at least every few milliseconds while
     * others work and after every task of its own: durability, progress. Errors as accept's. */
    enum status (*tick)(void *context, struct err *e);
    void *context;
};

enum sched_end { SCHED_DONE, SCHED_DRAINED, SCHED_STOPPED };

struct sched_outcome {
    enum sched_end end;
    int64_t finished; /* tasks, all their parts */
    int64_t pieces;   /* that were handed out */
};

/* Runs all tasks, the longest first (queue.h; tasks, n and sink count on rank 0 only). Collective
 * on world; every rank returns the same status. The master returns the first error of accept, tick
 * or a task; nothing hangs on it. */
MUST_USE enum status sched_run(MPI_Comm world, struct sched_task *tasks, int64_t n,
                               const struct sched_work *work, const struct sched_sink *sink,
                               struct sched_outcome *outcome, struct err *e);

/* Installs the handlers; idempotent. */
void sched_catch_signals(void);

/* sched: assigns jobs to groups of ranks and sends their results to one master. It knows no
 * science: a job and a result are texts, what runs a job is a function pointer.
 *
 * Rank 0 of the communicator is the master; the other ranks form groups, each with a
 * sub-communicator whose rank 0, the leader, talks to the master. A job says how many ranks work
 * on it. Groups form first for the jobs that want the most ranks; a group that finds no more of
 * those splits for the jobs that want fewer. Ranks left over by a split form a group too if there
 * are jobs for so few; otherwise they make the other groups larger. A single rank is master and
 * worker at once. A waiting rank sleeps and uses no core.
 *
 * Signals (sched_catch_signals): SIGUSR1 drains: jobs in flight are finished, no further one is
 * assigned. SIGTERM, SIGINT and SIGUSR2 drop the jobs in flight. Either way sched_run returns
 * normally and the outcome says so. If the time is limited (sched_end), no job is begun that
 * cannot end in it, and those in flight at the end are dropped.
 *
 * A group of which a rank dies, falls silent or makes no progress is lost (link.h). Its job goes
 * back to the queue, and where MPI can (mpirun --enable-recovery) other processes take its place;
 * elsewhere the run ends. What a lost rank still sends is dropped.
 */
#pragma once
#include "util/err.h"
#include <mpi.h>

struct sched_job {
    int64_t id;  /* by which struct sched_loss names it */
    char *text;  /* self-contained, owned by the caller; not needed where a rank is alone */
    char *name;  /* for progress, owned by the caller; NULL: none */
    double cost; /* expected seconds: of the whole job, or of what all its parts share */
    /* A job may be cut into batches, each of some parts; every batch repeats the shared work. */
    int64_t n_parts;    /* 0: never cut */
    double *parts;      // (n_parts) what each part adds to the cost, owned by the caller
    int64_t ranks;      /* that work on it together; 0: one. Fewer if there are not as many */
    int64_t kind;       /* from 0; the times of finished jobs correct the costs of their kind */
    int64_t turn;       /* jobs of an earlier turn are handed out first; 0: the longest first */
    int64_t files;      /* from 1: which files it reads, to send it where they were read; 0: none */
    double saved_after; /* seconds after which its state is saved, so that a later run can continue
                           it; 0: never */
    double saved; /* seconds of its work that a saved state holds; 0: there is none. Such jobs go
                     first in their turn, and are cut only if that is quicker than continuing */
};

/* What a group gets to run: a job, or a batch of one. */
struct sched_batch {
    const char *text;
    int64_t job;          /* its number, where the master itself runs it; else -1 */
    int64_t n_parts;      /* 0: a job without parts */
    const int64_t *parts; // (n_parts) ascending
};

/* How a running job reports to the master: owned by sched, valid during the job. */
struct sched_port;

/* Sends one result text to the master. Calls of ranks other than the leader do nothing. ERR_MPI. */
MUST_USE enum status sched_send(struct sched_port *port, const char *result, struct err *e);

/* True if the job should be dropped now. Collective on the group; every rank gets the same answer.
 * Cheap enough to ask once per block of the network. */
bool sched_should_stop(struct sched_port *port);

/* How far a running job is: what it does (a word or two), the seconds that its rest will take, and
 * those spent so far on what later jobs find ready. Sent at most once a second, unless last. Calls
 * of ranks other than the leader do nothing. Where a single rank works, its sink ticks. */
void sched_report(struct sched_port *port, const char *what, double left, double once, bool last);

/* What has been done of the running job so far is kept: whoever runs it again continues from it.
 * Calls of ranks other than the leader do nothing. */
void sched_keep(struct sched_port *port);

struct sched_work {
    /* Runs a batch. Collective on group: all its ranks call it with the same batch. ERR_STOPPED:
     * dropped because sched_should_stop said so; any other error ends the whole run (a failure that
     * concerns the job alone is a result). */
    enum status (*run)(void *context, MPI_Comm group, const struct sched_batch *batch,
                       struct sched_port *port, struct err *e);
    void *context;
};

/* A batch of a job that a group works on. */
struct sched_running {
    const char *name; /* of the job, borrowed; NULL: it has none */
    const char *what; /* as it reported last, borrowed; "" before it did */
    int rank;         /* the first of its group */
    double seconds;   /* since it was assigned */
};

/* How far the run is. */
struct sched_progress {
    double left; /* seconds until the last job ends, as the schedule is expected to go on */
    int64_t n;
    const struct sched_running *running; // (n) the oldest first
};

struct sched_sink {
    /* Takes one result, on the master. An error stops the run: nothing more is assigned, jobs in
     * flight are dropped. */
    enum status (*accept)(void *context, const char *result, struct err *e);
    /* Called on the master when no message is waiting, at least every few milliseconds while others
     * work and after each job of its own: for durability and progress. Errors: as of accept. */
    enum status (*tick)(void *context, struct err *e);
    /* Called when nothing is left to do of a job, with its id. May be NULL. */
    void (*finished)(void *context, int64_t id);
    /* Called before the first job, and again after as many seconds as it returns, with how far the
     * run is. NULL: never. */
    double (*progress)(void *context, const struct sched_progress *p);
    void *context;
};

/* A batch whose group was lost. */
struct sched_loss {
    int64_t job;     /* its id */
    const char *why; /* "rank 3 (HOST, process 123) has died" */
    double seconds;  /* since it was assigned */
    bool kept;       /* some of its work was (sched_keep) */
    /* What is to be done again: at first all of the batch. The callee may remove parts, or set
     * again to false: nothing. */
    bool again;
    int64_t n_parts, *parts; // (n_parts) ascending; a job without parts has none
    char *text;              /* of the job; the callee may replace it, and owns both */
};

struct link;
/* What happens when ranks are lost; on rank 0, the others and a rank that works alone need only
 * link. */
struct sched_rescue {
    struct link *link; /* NULL: lost ranks go unnoticed */
    char **argv;       /* the command of a replacement, NULL-terminated; NULL: there is none */
    /* What the replacement of a rank must know (sched_replace), borrowed. */
    const char *(*terms)(void *context, int64_t rank);
    /* Takes note of a loss that no signal has caused. An error ends the run. */
    enum status (*lose)(void *context, struct sched_loss *loss, struct err *e);
    void *context;
};

enum sched_end { SCHED_DONE, SCHED_DRAINED, SCHED_STOPPED };

struct sched_outcome {
    enum sched_end end;
    int64_t finished; /* jobs of which all parts are finished */
    int64_t batches;  /* handed out */
    double shortest;  /* expected seconds of the shortest batch that was not handed out since the
                         time was too short for it; 0: none */
    bool lost;        /* a rank was lost */
};

/* Runs all jobs, by turn, then the longest first (queue.h). jobs (n) and sink are used on rank 0
 * only. Called by all ranks of world, but no collective call when it ends, since ranks may be lost:
 * status (the first error of accept, tick or a job, or ERR_MPI) and outcome are those of rank 0;
 * the others return OK when there is nothing left for them, or ERR_MPI, ERR_NOMEM. */
MUST_USE enum status sched_run(MPI_Comm world, struct sched_job *jobs, int64_t n,
                               const struct sched_work *work, const struct sched_sink *sink,
                               const struct sched_rescue *rescue, struct sched_outcome *outcome,
                               struct err *e);

/* True in a process that replaces a lost rank; *master: how it reaches rank 0. */
bool sched_replaces(MPI_Comm *master);
/* Its counterpart of sched_run: takes the terms, then works until there is nothing left. world: the
 * replacements of one group. Collective on world. Afterwards the process ends without another call
 * of MPI. Errors: of take, ERR_MPI, ERR_NOMEM. */
MUST_USE enum status sched_replace(MPI_Comm world, MPI_Comm master, const struct sched_work *work,
                                   enum status (*take)(void *context, const char *terms,
                                                       struct err *e),
                                   void *context, struct err *e);

/* Installs the signal handlers. May be called again. */
void sched_catch_signals(void);
/* Limits the time of this process's sched_run, on rank 0: at `end` (clock_seconds) jobs in flight
 * get a message to stop, at `last` it is as if SIGTERM came. Before deadline_open. INFINITY: no
 * limit.
 */
void sched_end(double end, double last);
/* Whether SIGTERM, SIGINT or SIGUSR2 has arrived; one of them or SIGUSR1. */
bool sched_must_stop(void);
bool sched_must_end(void);

/* What is done some time after a signal to stop, or after the last moment of a run whose time is
 * limited, whatever the process is busy with: a product of matrices may take minutes, and mpirun
 * kills its ranks after a second. */
struct deadline;
/* From now on late(context) is called `seconds` after the second of these signals, after that
 * moment (sched_end), or after the first that makes mpirun kill its ranks; `grace` seconds after
 * another first one, or as long as the deadline has been open. This happens on a thread of its own,
 * unless the deadline is closed before. After
 * sched_catch_signals; one at a time in a process. The caller closes *out. ERR_NOMEM: no thread. */
MUST_USE enum status deadline_open(double seconds, double grace, void (*late)(void *),
                                   void *context, struct deadline **out, struct err *e);
/* `late` is not called any more; where it is running, this waits for it. NULL: nothing. */
void deadline_close(struct deadline *d);

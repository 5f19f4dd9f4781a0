/* sched_internal: messages and functions that master, worker and port share. */
#pragma once
#include "sched/sched.h"
#include "util/patience.h"

/* Messages. READY (with the group's size and class), BEGUN (a batch has come), RESULT, PROGRESS,
 * KEPT (sched_keep), DONE and BROKEN go from a leader to the master; JOB, SPLIT (with a struct
 * sched_split), STOP and END from the master to a leader; TERMS to each rank of a group that
 * replaces a lost one (ranks.h). */
enum tag {
    TAG_READY = 1,
    TAG_BEGUN,
    TAG_RESULT,
    TAG_PROGRESS,
    TAG_KEPT,
    TAG_DONE,
    TAG_BROKEN,
    TAG_JOB,
    TAG_SPLIT,
    TAG_STOP,
    TAG_END,
    TAG_TERMS
};

struct sched_port {
    MPI_Comm world;                /* master is its rank 0, or that of its remote group */
    MPI_Comm group;                /* leader is its rank 0 */
    int64_t class;                 /* ranks that its jobs ask for; 0: it has had no job yet */
    double reported;               /* clock_seconds of the last report */
    const struct sched_sink *sink; /* a single rank: where results go; else NULL */
    struct queue *queue;           /* likewise: where its batches come from, */
    struct run_forecast *forecast; /* and when it will be done */
    struct link *link;             /* which ends the run if it makes no progress; or NULL */
    const char *name;              /* of the running job */
    char what[32];                 /* what it does */
    double start, expected;        /* clock_seconds when it began; seconds that it should take */
    enum status sink_status;       /* the first failure of the sink; */
    struct err sink_failure;       /* and its text, if that was not in a call that returned it */
    bool stop;                     /* the master sent STOP */
};

/* Which signal has arrived so far; SIGTERM and SIGINT go before SIGUSR1. At the end of the time
 * (sched_end) it is as if SIGTERM had come. */
enum signal_state { SIGNAL_NONE, SIGNAL_DRAIN, SIGNAL_STOP };
enum signal_state sched_signal(void);
/* As sched_end has set it; INFINITY: no limit. */
double sched_ends(void);

/* A text travels in messages of SCHED_CHUNK bytes, and a shorter last one. Each is below every
 * transport's limit for eager messages: it is there as a whole or not at all, so whoever has probed
 * it never waits for a sender that has died in the middle of it. */
enum { SCHED_CHUNK = 2048 };
/* The chunks of a text that have come. Zero-initialise; free text. */
struct sched_arrival {
    char *text;
    int64_t chunks, capacity;
};
/* Receives the probed chunk. *whole: it was the last; a->text is NUL-terminated. ERR_MPI,
 * ERR_NOMEM. */
MUST_USE enum status sched_chunk(MPI_Comm comm, const MPI_Status *probed, struct sched_arrival *a,
                                 bool *whole, struct err *e);
/* Sends a text without its NUL. ERR_MPI. */
MUST_USE enum status sched_post(MPI_Comm comm, int to, int tag, const char *text, struct err *e);

/* How a group splits for jobs that ask for `class` ranks. */
struct sched_split {
    int64_t class;
    bool rest; /* the ranks left over become a group; else they make the other groups larger */
};
/* Number of groups that `ranks` ranks split into, and the group of one rank. */
int64_t sched_split_count(const struct sched_split *s, int64_t ranks);
int64_t sched_split_color(const struct sched_split *s, int64_t ranks, int64_t rank);

/* sched_run for rank 0, and for a single rank. node (ranks of world): the node
 * of each rank. */
MUST_USE enum status master_run(MPI_Comm world, const int *node, const struct sched_job *jobs,
                                int64_t n, const struct sched_sink *sink,
                                const struct sched_rescue *rescue, struct sched_outcome *outcome,
                                struct err *e);
MUST_USE enum status single_process_run(MPI_Comm world, const struct sched_job *jobs, int64_t n,
                                        const struct sched_work *work,
                                        const struct sched_sink *sink,
                                        const struct sched_rescue *rescue,
                                        struct sched_outcome *outcome, struct err *e);

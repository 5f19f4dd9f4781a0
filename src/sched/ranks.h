/* ranks: the table of the ranks that work for the master, and the messages from and to them. Rank i
 * of the first communicator has slot i. Where a group is lost, other processes (replacements) may
 * take its slots, each in another communicator: a message that a lost rank still sends comes from a
 * communicator that has no slot any more, and is dropped.
 *
 * No call here waits for a rank that may be dead: texts travel in chunks (sched_internal.h), which
 * are sent without waiting, and received only if they are there. A call of MPI that does not return
 * all the same, because of what a dying rank has left in shared memory, ends the run after a while
 * (link_alarm). */
#pragma once
#include "sched/link.h"
#include "sched/run_forecast.h"
#include "sched/sched_internal.h"

/* What the master knows of a group, by its leader. */
struct leader {
    struct sched_class *in; /* class of its batch, NULL: it has none */
    int64_t group;          /* number of its group in that class */
    int64_t job;            /* of that class */
    double expected;        /* seconds that the batch should take */
    double start;           /* clock_seconds when it was sent */
    double heard;           /* link_clock of the last sign of progress */
    char what[32];          /* what it does, as it says */
    bool acknowledged;      /* it has said that the batch has come */
    bool kept;              /* and that some of its work is kept */
    bool ended;             /* it has got END */
    bool waiting;           /* for a batch that may come back */
    bool vacant;            /* its group is lost, and to be replaced */
    bool fresh;             /* a replacement that has not been ready yet */
    int64_t size, class;    /* as it said when it was ready */
};

struct rank {
    int comm, peer;               /* its communicator (struct ranks), and its rank there */
    int64_t link;                 /* its id there */
    int leader;                   /* the rank that leads its group */
    bool gone;                    /* no process has the slot any more */
    struct sched_arrival arrival; /* the chunks of its message so far */
    struct leader lead;           /* if it leads a group */
};

struct ranks_message {
    int rank, tag;
    char *text; /* NUL-terminated; the caller frees */
};

/* Zero-initialise; ranks_close. */
struct ranks {
    struct link *link; /* borrowed; NULL: nobody looks for losses */
    int n;
    struct rank *rank; // (n); 0 is the master itself
    int64_t n_comms, comms_capacity, next;
    struct ranks_comm *comms; // (n_comms) the first is world
    int64_t n_sent, sent_capacity;
    struct sent *sent; // (n_sent) messages that are under way
};

/* The ranks of world but its first are one group. ERR_NOMEM. */
MUST_USE enum status ranks_open(struct ranks *s, MPI_Comm world, struct link *link, struct err *e);
/* Messages under way to ranks that are gone are left behind. */
void ranks_close(struct ranks *s);

/* Sends a text. ERR_MPI, ERR_NOMEM. */
MUST_USE enum status ranks_send(struct ranks *s, int rank, int tag, const char *text,
                                struct err *e);
/* *there: whether there was a message; one of a rank that is gone is dropped. ERR_MPI, ERR_NOMEM.
 */
MUST_USE enum status ranks_receive(struct ranks *s, struct ranks_message *m, bool *there,
                                   struct err *e);

/* Number of ranks in the group of this leader. */
int ranks_group(const struct ranks *s, int leader);
/* The group is split as the workers split it. */
void ranks_split(struct ranks *s, int leader, int64_t class, bool rest);
/* The group's ranks are written off, and ordered to end. */
void ranks_lose(struct ranks *s, int leader);
/* Starts processes for the slots of a lost group: the command argv (NULL-terminated). Each gets
 * TAG_TERMS: "ID\nADDRESS\nTERMS", terms (its slots, in order). Takes a quarter of a second.
 * ERR_MPI: MPI cannot; ERR_NOMEM. */
MUST_USE enum status ranks_replace(struct ranks *s, int leader, char **argv, const char **terms,
                                   struct err *e);

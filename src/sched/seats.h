/* seats: the ranks that work for the master, and the messages from and to them. A seat is a
 * worker's place: rank i of the first communicator has seat i. Where a group is lost, other
 * processes (replacements) may take its seats, each in another communicator: a message that a lost
 * rank still sends comes from a communicator whose seats are taken, and is dropped.
 *
 * No call here waits for a rank that may be dead: texts travel in chunks (sched_internal.h), which
 * are sent without waiting, and received only if they are there. A call of MPI that does not return
 * all the same, because of what a dying rank has left in shared memory, ends the run after a while
 * (link_alarm). */
#pragma once
#include "sched/link.h"
#include "sched/sched_internal.h"

struct seat {
    int crew, peer;               /* its communicator (struct seats), and its rank there */
    int64_t link;                 /* its id there */
    int leader;                   /* the seat of its group's leader */
    bool gone;                    /* nobody sits there any more */
    struct sched_arrival arrival; /* the chunks of its message so far */
};

struct seats_message {
    int seat, tag;
    char *text; /* NUL-terminated; the caller frees */
};

/* Zero-initialise; seats_close. */
struct seats {
    struct link *link; /* borrowed; NULL: nobody watches */
    int n;
    struct seat *seat; // (n); seat 0 is the master's own
    int64_t n_crews, crews_capacity, next;
    struct crew *crews; // (n_crews) the first is world
    int64_t n_sent, sent_capacity;
    struct sent *sent; // (n_sent) messages that are under way
};

/* The ranks of world but its first are one group. ERR_NOMEM. */
MUST_USE enum status seats_open(struct seats *s, MPI_Comm world, struct link *link, struct err *e);
/* Messages under way to ranks that are gone are left behind. */
void seats_close(struct seats *s);

/* Sends a text to a seat. ERR_MPI, ERR_NOMEM. */
MUST_USE enum status seats_post(struct seats *s, int seat, int tag, const char *text,
                                struct err *e);
/* *there: whether there was a message; one of a rank that is gone is dropped. ERR_MPI, ERR_NOMEM.
 */
MUST_USE enum status seats_take(struct seats *s, struct seats_message *m, bool *there,
                                struct err *e);

/* Number of ranks in the group that the seat leads. */
int seats_group(const struct seats *s, int leader);
/* The group is split as the workers split it. */
void seats_split(struct seats *s, int leader, int64_t class, bool rest);
/* The group's ranks are written off, and ordered to end. */
void seats_lose(struct seats *s, int leader);
/* Starts processes for the seats of a lost group: the command argv (NULL-terminated). Each gets
 * TAG_TERMS: "ID\nADDRESS\nTERMS", terms (its seats, in order). Takes a quarter of a second.
 * ERR_MPI: MPI cannot; ERR_NOMEM. */
MUST_USE enum status seats_refill(struct seats *s, int leader, char **argv, const char **terms,
                                  struct err *e);

/* link: which ranks live. Open MPI 4.1 reports no death of a rank: calls that wait for it hang. So
 * each rank holds a TCP connection to rank 0, on which a thread of its own sends a byte now and
 * then, whatever the rank computes. A connection that closes is a rank that has ended; one without
 * a byte for a minute is a rank that is stopped, or a host that is gone. A rank that loses the
 * connection to rank 0, or hears nothing of it for a minute, leaves: its process ends. The thread
 * of rank 0 also ends the run when what rank 0 does takes longer than it may (link_alarm).
 *
 * Time is counted while this process runs: if the whole job is stopped for an hour and continued,
 * nobody has been silent. */
#pragma once
#include "util/err.h"
#include <mpi.h>

struct link;

/* Connects all ranks of world to its rank 0, which lets in who presents the random secret that it
 * has sent to them by MPI. A single rank has alarms only. Where one cannot connect, or no thread or
 * socket can be had, *out is NULL on all of them: nobody looks, of which rank 0 warns; ERR_MPI
 * where nobody else ends the run when a rank dies (link_recovers). Rank 0: until link_work,
 * the death or silence of a rank calls broken(context, who it was) on the link's thread, which does
 * not return from it. Collective on world. One link per process; its thread runs until the process
 * ends. */
MUST_USE enum status link_open(MPI_Comm world, void (*broken)(void *context, const char *why),
                               void *context, struct link **out, struct err *e);

/* As rank `id` of the address, for a process that has been started later. NULL: no connection. */
struct link *link_join(const char *address, int64_t id);

/* For a process that is no rank and looks itself (link_poll), without a thread: so many ranks may
 * join as 1, 2, ...; on the loopback address if all are `here`, on this host. link_close ends it.
 * NULL: it cannot listen. */
struct link *link_serve(int64_t ranks, bool here);
/* Takes in what has come, without waiting. To be called every second. */
void link_poll(struct link *l);
/* NULL: nothing. */
void link_close(struct link *l);
CLEANUP_BY_VALUE(struct link, link_close)

/* Before a rank ends as it should: what the others do is of no interest any more. If it is still
 * there a minute later, its thread ends it. NULL: nothing. */
void link_bye(struct link *l);

/* Whether this MPI's launcher lets the other ranks live when one dies (mpirun --enable-recovery).
 */
bool link_recovers(void);

/* --- the rest is for rank 0 --- */

/* From now on rank 0 looks for itself who is lost. Ends an alarm. */
void link_work(struct link *l);

/* What is known of a rank. */
struct link_view {
    bool lost;     /* its process has ended, and did not say that it would; or it is silent */
    double silent; /* seconds since it was heard of; 0: it has ended */
    bool known, connected; /* it has connected, and still is */
    char host[64];         /* "": it has not connected yet */
    int64_t pid;
    size_t n_said;
    char said[8]; /* the first bytes with which it said more than that it lives */
};
struct link_view link_look(struct link *l, int64_t id);
/* Whether somebody was lost since this was last asked. Cheap. */
bool link_changed(struct link *l);
/* Seconds that this process has run. */
double link_clock(struct link *l);

/* Orders the rank to end at once; what becomes of it is no news. */
void link_dismiss(struct link *l, int64_t id);
/* The first of n new ranks, which will link_join the address. ERR_MPI: it cannot listen, ERR_NOMEM.
 */
MUST_USE enum status link_expect(struct link *l, int64_t n, int64_t *first, struct err *e);
/* While ranks are expected that have not come. */
const char *link_address(const struct link *l);
/* If no other alarm follows within so many seconds, broken(context, why) is called. why NULL: there
 * is none from now on. */
void link_alarm(struct link *l, double seconds, const char *why);

/* All work is done, the exit code known; ends an alarm. Returns true if `detached` or if a rank is
 * lost: then all others are ordered to end, and there must be no collective call any more. Else, if
 * a rank is lost or silent from now on, the link's thread calls tell(code) and ends this process
 * with the code; in both cases also if it is still there a minute later (link_bye). */
bool link_finish(struct link *l, int code, bool detached, void (*tell)(int code));

/* lock: one process at a time writes a journal and the cube that is made of it.
 *
 * It is flock(2) on the journal itself, where the file system has that, and beside it the file
 * JOURNAL.lock, which names the holder. A thread of the holder renews that file (its time of
 * change) every quarter of the lease: 120 seconds, or QTRAJ_LEASE. The lock of a process that is
 * certainly gone is taken over at once, that of a Slurm job that is over, and one that was not
 * renewed for a lease, after another quarter of the lease without a renewal; the journal is then
 * replaced by a copy, so that a holder that wakes up late cannot write to it
 * (docs/decisions/0021-locks.md). */
#pragma once
#include "util/err.h"

struct lock;

struct lock_options {
    bool create;                 /* makes an empty journal if there is none */
    void (*lost)(void *context); /* called once, on the lock's thread, when it is another's */
    void *context;
};
/* Takes the lock of a journal; links to it are followed. o: NULL is all zero. ERR_LOCKED names the
 * holder's host and process; ERR_IO, ERR_FULL, ERR_NOMEM. */
MUST_USE enum status lock_take(const char *journal, const struct lock_options *o, struct lock **out,
                               struct err *e);
/* Before every write that the lock protects. A lock file that was removed is made again. ERR_IO:
 * the lock is another's, or its folder is gone; the caller writes nothing more. */
MUST_USE enum status lock_check(struct lock *l, struct err *e);
/* NULL: nothing. */
void lock_release(struct lock *l);
CLEANUP_BY_VALUE(struct lock, lock_release);
/* Removes the lock file of a process that is about to end, while its other threads may still use
 * the lock: lock_check fails from now on. */
void lock_abandon(struct lock *l);

/* Who holds it. */
struct lock_holder {
    bool held;    /* false: by nobody, by a process that is gone, or not renewed for a lease */
    bool certain; /* it runs on this host; else that is what its lock says */
    bool ending;  /* and has begun to exit */
    bool renewed; /* within its lease */
    char host[256], utc[21];
    int64_t pid;
};
/* Only reads; needs no permission but to read. */
struct lock_holder lock_look(const char *journal);
/* Without taking the lock: ERR_LOCKED, as of lock_take, if a process of this host certainly holds
 * it, renews it, and goes on to do so for a quarter of a second. ERR_NOMEM. */
MUST_USE enum status lock_check_free(const char *journal, struct err *e);

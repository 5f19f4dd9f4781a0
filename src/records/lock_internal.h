/* lock_internal: what taking a lock (lock.c) and holding it (lock_hold.c) share. */
#pragma once
#include "records/lock.h"
#include "util/json.h"
#include <pthread.h>

struct lock {
    struct lock_options options;
    char *journal, *path; /* links resolved; path: JOURNAL.lock */
    char *temporary;      /* the lock file before it gets its name */
    json_t *self;
    char *text; /* of the lock file: self, lease, flock and the journal's inode */
    double lease;
    int fd;      /* of the journal; -1: there is none */
    bool locked; /* flock(2) is held on fd */
    pthread_mutex_t guard;
    pthread_cond_t wake;
    pthread_t thread;
    bool renewing, closing, lost; /* under guard */
    char taker[320];              /* of a lost lock */
};

/* Seconds between two renewals of a lock with that lease. */
static inline double lock_interval(double lease)
{
    return lease / 4;
}

/* Whether fd is open on the file at path. */
bool lock_file_is(int fd, const char *path);
/* Writes l->text, durably, to l->temporary. ERR_FULL, ERR_IO. */
MUST_USE enum status lock_write_temporary(struct lock *l, struct err *e);
/* Starts to renew it. ERR_NOMEM. */
MUST_USE enum status lock_hold(struct lock *l, struct err *e);
/* Ends the renewals and frees everything but the lock file. */
void lock_free(struct lock *l);

/* run_journal: the journal of `qtraj run`, its lock, and how it ends: by the run itself, or, a
 * quarter of a second after SIGTERM or SIGINT, on a thread of its own. */
#pragma once
#include "results/results.h"
#include "sched/deadline.h"
#include <pthread.h>

/* Zero-initialise; run_journal_close. */
struct run_journal {
    /* Held while the journal is written to, or while one of the next four changes. */
    pthread_mutex_t guard;
    char *results;
    struct lock *lock;
    struct journal *journal;
    bool ended; /* the end record is there: nothing comes after it */
    struct deadline *deadline;
};

/* First of all, after sched_catch_signals. From now on a signal ends the process with code 3 within
 * a quarter of a second, if it does not end by itself: the journal gets its end record, the lock
 * is released, and an unfinished cube goes; what is in hand is dropped. ERR_NOMEM. */
MUST_USE enum status run_journal_watch(struct run_journal *j, struct err *e);

/* Takes the lock of the results and opens their journal. ERR_USAGE: there is a file in the cube's
 * place that is no cube of this journal; others as lock_take and journal_open. *stale: the cube is
 * not there, or older than the journal. */
MUST_USE enum status run_journal_open(struct run_journal *j, const char *results, bool *stale,
                                      struct err *e);

/* As of journal.c; ERR_STOPPED behind the end record. */
MUST_USE enum status run_journal_append(struct run_journal *j, const json_t *record, struct err *e);
MUST_USE enum status run_journal_sync(struct run_journal *j, struct err *e);
/* Appends the end record, durably. */
MUST_USE enum status run_journal_end(struct run_journal *j, const char *status, int exit_code,
                                     struct err *e);

/* Closes the journal and releases the lock. */
void run_journal_close(struct run_journal *j);

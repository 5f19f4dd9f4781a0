/* run_journal: the journal of `qtraj run`, its lock, and how it ends: by the run itself, or, some
 * seconds after SIGTERM or SIGINT, on a thread of its own. */
#pragma once
#include "records/results.h"
#include <pthread.h>

/* Zero-initialise; run_journal_close. */
struct run_journal {
    /* Held while the journal is written to, or while one of the others changes. */
    pthread_mutex_t guard;
    char *cube, *path; /* of the cube and the journal, links resolved */
    struct lock *lock;
    struct journal *journal;
    json_t *last_end; /* the newest record if it is an end record */
    bool ended;       /* this run has recorded its end: nothing but another end comes after it */
    bool finished;    /* and the cube has it: a signal changes nothing any more */
    struct deadline *deadline;
};

/* First of all, after sched_catch_signals. From now on a signal ends the process with code 3 within
 * 8 seconds, a second one at once (deadline_open), if it does not end by itself: the journal gets
 * its end record, the lock is released, and an unfinished cube is removed; work that is neither
 * finished nor saved is lost. ERR_NOMEM. */
MUST_USE enum status run_journal_watch(struct run_journal *j, struct err *e);

/* Ends the process at once as if a signal had come, on any thread, for the reason that it prints.
 * Does not return; qtraj launch starts the run again. context: a struct run_journal that is
 * watched. */
void run_journal_break(void *context, const char *why);

/* Makes the folder of the results. ERR_IO, ERR_FULL, ERR_NOMEM. */
MUST_USE enum status run_journal_folder(const char *results, struct err *e);
/* The cube would replace the file at its path, which must be an earlier cube of the journal beside
 * it. ERR_USAGE: there is a file in the cube's place that is no cube, or a cube without a journal;
 * ERR_IO, ERR_NOMEM. */
MUST_USE enum status run_journal_check(const char *results, struct err *e);

/* Takes the lock of the results and opens their journal; removes what killed runs left beside them.
 * If another process takes the lock over, this one gets SIGTERM. Errors of run_journal_check,
 * lock_take and journal_open.
 * *stale: the cube is not there, damaged, or was not made of all of the journal. */
MUST_USE enum status run_journal_open(struct run_journal *j, const char *results, bool *stale,
                                      struct err *e);

/* As of journal.c, while the lock is held (lock_check); ERR_STOPPED behind the end record. */
MUST_USE enum status run_journal_append(struct run_journal *j, const json_t *record, struct err *e);
MUST_USE enum status run_journal_sync(struct run_journal *j, struct err *e);
/* Appends the end record, durably, unless the journal ends with the same one; *appended. */
MUST_USE enum status run_journal_end(struct run_journal *j, const char *status, int exit_code,
                                     bool *appended, struct err *e);
/* After the last cube: the end record is true, whatever signal comes. */
void run_journal_finish(struct run_journal *j);

/* Records an end with that code as far as that is possible, unless it was recorded; closes the
 * journal and releases the lock. */
void run_journal_close(struct run_journal *j, int exit_code);

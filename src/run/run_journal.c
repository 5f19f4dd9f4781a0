#include "run/run_journal.h"
#include "records/running.h"
#include "run/startup.h"
#include "sched/sched.h"
#include "util/clock.h"
#include "util/exit_code.h"
#include "util/fsx.h"
#include "util/log.h"
#include "util/mem.h"
#include "util/temporary.h"
#include "util/thread.h"
#include <signal.h>
#include <unistd.h>

/* --- writing --- */

/* With the guard held. */
static enum status append(struct run_journal *j, const json_t *record, struct err *e)
{
    PASS(lock_check(j->lock, e));
    PASS(journal_append(j->journal, record, e));
    json_drop(&j->last_end);
    return OK;
}

/* With the guard held. A record counts if the lock was still held when it was durable: whoever took
 * it over has read the journal after that. */
static enum status make_durable(struct run_journal *j, struct err *e)
{
    PASS(journal_sync(j->journal, e));
    return lock_check(j->lock, e);
}

enum status run_journal_append(struct run_journal *j, const json_t *record, struct err *e)
{
    PASS(json_whole(e));
    HOLD(&j->guard);
    NEED(!j->ended, ERR_STOPPED, "stopped by a signal");
    return append(j, record, e);
}

enum status run_journal_sync(struct run_journal *j, struct err *e)
{
    HOLD(&j->guard);
    return make_durable(j, e);
}

/* With the guard held. */
static enum status end(struct run_journal *j, const char *status, int exit_code, bool *appended,
                       struct err *e)
{
    char utc[21];
    *appended = !j->last_end || strcmp(json_text(j->last_end, "status", ""), status) != 0 ||
                json_int(j->last_end, "exit_code") != exit_code;
    if (*appended) {
        clock_utc(utc);
        json_auto_t *record = json_pack("{s:s, s:s, s:s, s:i}", "type", "end", "status", status,
                                        "utc", utc, "exit_code", exit_code);
        NEED(record, ERR_NOMEM, "out of memory for the end record");
        PASS(append(j, record, e));
        j->last_end = json_incref(record);
        PASS(make_durable(j, e));
    }
    j->ended = true;
    return OK;
}

enum status run_journal_end(struct run_journal *j, const char *status, int exit_code,
                            bool *appended, struct err *e)
{
    HOLD(&j->guard);
    return end(j, status, exit_code, appended, e);
}

void run_journal_finish(struct run_journal *j)
{
    HOLD(&j->guard);
    j->finished = true;
}

/* --- a signal --- */

/* The main thread may be anywhere, but not inside the journal. The guard stays held, so that it
 * writes nothing more. A run that had recorded its end, but not yet written its last cube, records
 * another end. */
static void end_here(struct run_journal *j, int verdict)
{
    struct err e = {0};
    bool appended;
    HOLD(&j->guard);
    if (j->finished) return;
    if (j->journal && end(j, "stopped", EXIT_STOPPED, &appended, &e) != OK) log_error("%s", e.text);
    if (j->lock) {
        temporary_remove_all();
        running_remove(j->path);
        lock_abandon(j->lock);
    }
    log_info("%s: stopped, resumable; finished cells are in the journal, some perhaps not in the "
             "cube. Start the run again to continue; qtraj rebuild makes a cube of the journal",
             j->cube ? j->cube : "run");
    startup_tell(verdict);
    _exit(EXIT_STOPPED);
}

/* After a signal, or at the end of the run's time. */
static void end_in_time(void *context)
{
    end_here(context, sched_must_stop() ? EXIT_STOPPED : STARTUP_LATER);
}

void run_journal_break(void *context, const char *why)
{
    log_error("%s", why);
    end_here(context, STARTUP_AGAIN);
}

enum status run_journal_watch(struct run_journal *j, struct err *e)
{
    const double seconds = 0.25, grace = 8; /* less than launch's patience with mpirun */
    pthread_mutex_init(&j->guard, NULL);
    return deadline_open(seconds, grace, end_in_time, j, &j->deadline, e);
}

/* --- opening and closing --- */

enum status run_journal_folder(const char *results, struct err *e)
{
    const enum status st = fsx_make_parent(results, e);
    if (st != OK && st != ERR_NOMEM) err_prefix(e, "results: cannot make its folder");
    return st;
}

enum status run_journal_check(const char *results, struct err *e)
{
    AUTO_FREE char *cube = NULL, *journal = NULL;
    PASS(cube_check_place("results: ", results, e));
    PASS(fsx_resolve(results, &cube, e));
    PASS(journal_path(cube, &journal, e));
    NEED(access(results, F_OK) != 0 || fsx_is_file(journal), ERR_USAGE,
         "results: %s exists, but its journal %s does not: a run would overwrite it; put the "
         "journal back beside it, move the cube away, or name another file",
         results, journal);
    return OK;
}

/* The process is in a visit, perhaps for hours; what it finds would not be recorded. At
 * once: its states would be in the way of the new owner's. */
static void leave(void *context)
{
    (void)context;
    kill(getpid(), SIGTERM);
    kill(getpid(), SIGUSR2); /* the second signal, which does not merge with the first */
}

/* Another thread may look for them from now on. */
static void publish(struct run_journal *j, struct lock *lock, struct journal *journal)
{
    HOLD(&j->guard);
    if (lock) j->lock = lock;
    if (journal) j->journal = journal;
}

enum status run_journal_open(struct run_journal *j, const char *results, bool *stale, struct err *e)
{
    struct lock *lock;
    struct journal *journal;
    const struct lock_options options = {.create = true, .lost = leave};
    PASS(fsx_resolve(results, &j->cube, e));
    PASS(journal_path(j->cube, &j->path, e));
    PASS(run_journal_check(results, e));
    PASS(lock_take(j->path, &options, &lock, e));
    publish(j, lock, NULL);
    temporary_remove_left(j->cube, TEMPORARY_ALL);
    running_remove(j->path);
    PASS(journal_open(j->path, &journal, e));
    publish(j, NULL, journal);
    json_auto_t *record = NULL;
    const int64_t n = journal_n(j->journal);
    if (n > 0) PASS(journal_read(j->journal, n - 1, NULL, &record, e));
    const bool end = strcmp(json_text(record, "type", ""), "end") == 0;
    j->last_end = end ? json_incref(record) : NULL;
    /* Stale: a run was stopped or killed before it renewed the cube, or something changed it. */
    struct journal_mark mark;
    int64_t lines;
    *stale = true;
    if (access(j->cube, F_OK) != 0) return OK;
    PASS(cube_mark(j->cube, &mark, e));
    *stale = journal_since(j->path, &mark, &lines) != JOURNAL_SAME;
    return OK;
}

void run_journal_close(struct run_journal *j, int exit_code)
{
    bool appended;
    deadline_close(j->deadline);
    if (j->journal && !j->ended && journal_n(j->journal) &&
        end(j, exit_code == EXIT_STOPPED ? "stopped" : "failed", exit_code, &appended, NULL) != OK)
        log_trace("io", "the end of the run is not recorded");
    journal_close(j->journal);
    if (j->lock) running_remove(j->path);
    lock_release(j->lock);
    json_decref(j->last_end);
    free(j->cube);
    free(j->path);
    *j = (struct run_journal){0};
}

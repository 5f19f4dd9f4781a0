#include "cli/run_journal.h"
#include "cli/cli.h"
#include "util/clock.h"
#include "util/fsx.h"
#include "util/log.h"
#include "util/mem.h"
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- writing --- */

enum status run_journal_append(struct run_journal *j, const json_t *record, struct err *e)
{
    pthread_mutex_lock(&j->guard);
    enum status st = j->ended ? err_set(e, ERR_STOPPED, __FILE__, __LINE__, "stopped by a signal")
                              : journal_append(j->journal, record, e);
    pthread_mutex_unlock(&j->guard);
    return st;
}

enum status run_journal_sync(struct run_journal *j, struct err *e)
{
    pthread_mutex_lock(&j->guard);
    enum status st = journal_sync(j->journal, e);
    pthread_mutex_unlock(&j->guard);
    return st;
}

/* With the guard held. */
static enum status end(struct run_journal *j, const char *status, int exit_code, struct err *e)
{
    enum status st = OK;
    char utc[21];
    clock_utc(utc);
    json_t *record = json_pack("{s:s, s:s, s:s, s:i}", "type", "end", "status", status, "utc", utc,
                               "exit_code", exit_code);
    ENSURE(record, ERR_NOMEM, "out of memory for the end record");
    TRY(journal_append(j->journal, record, e));
    j->ended = true;
    TRY(journal_sync(j->journal, e));
done:
    json_decref(record);
    return st;
}

enum status run_journal_end(struct run_journal *j, const char *status, int exit_code, struct err *e)
{
    pthread_mutex_lock(&j->guard);
    enum status st = end(j, status, exit_code, e);
    pthread_mutex_unlock(&j->guard);
    return st;
}

/* --- a signal --- */

/* The main thread may be anywhere, but not inside the journal. The guard stays held, so that it
 * writes nothing more. */
static void end_late(void *context)
{
    struct run_journal *j = context;
    struct err e = {0};
    pthread_mutex_lock(&j->guard);
    if (j->journal && !j->ended && end(j, "stopped", EXIT_STOPPED, &e) != OK)
        log_error("%s", e.text);
    if (j->lock) {
        cube_discard(j->results);
        lock_release(j->lock);
    }
    log_info("%s: stopped, resumable; finished cells are in the journal, some perhaps not in the "
             "cube. Start the run again to continue; qtraj rebuild makes a cube of the journal",
             j->results ? j->results : "run");
    _exit(EXIT_STOPPED);
}

enum status run_journal_watch(struct run_journal *j, struct err *e)
{
    const double seconds = 0.25;
    pthread_mutex_init(&j->guard, NULL);
    return deadline_open(seconds, end_late, j, &j->deadline, e);
}

/* --- opening and closing --- */

/* The cube will replace the file at its path, which must be an earlier cube of this journal. */
static enum status check_place(const char *results, const char *journal, struct err *e)
{
    if (access(results, F_OK) != 0) return OK;
    NEED(fsx_is_file(results), ERR_USAGE, "results: %s is not a file that can be replaced",
         results);
    NEED(fsx_is_file(journal), ERR_USAGE,
         "results: %s exists, but its journal %s does not: a run would overwrite it; move it "
         "away, or name another file",
         results, journal);
    return OK;
}

/* Whether the journal was written to after the cube: a run was stopped or killed before it could
 * renew it. */
static bool is_stale(const char *results, const char *journal)
{
    struct stat cube, log;
    if (stat(results, &cube) != 0 || stat(journal, &log) != 0) return true;
    const struct timespec *a = &cube.st_mtim, *b = &log.st_mtim;
    return a->tv_sec != b->tv_sec ? a->tv_sec < b->tv_sec : a->tv_nsec < b->tv_nsec;
}

/* Another thread may look for them from now on. */
static void publish(struct run_journal *j, struct lock *lock, struct journal *journal)
{
    pthread_mutex_lock(&j->guard);
    if (lock) j->lock = lock;
    if (journal) j->journal = journal;
    pthread_mutex_unlock(&j->guard);
}

enum status run_journal_open(struct run_journal *j, const char *results, bool *stale, struct err *e)
{
    enum status st = OK;
    char *path = NULL;
    struct lock *lock;
    struct journal *journal;
    TRY(mem_string(&j->results, results, e));
    TRY(lock_take(results, &lock, e));
    publish(j, lock, NULL);
    TRY(journal_path(results, &path, e));
    TRY(check_place(results, path, e));
    TRY(journal_open(path, &journal, e));
    publish(j, NULL, journal);
    *stale = is_stale(results, path);
done:
    free(path);
    return st;
}

void run_journal_close(struct run_journal *j)
{
    deadline_close(j->deadline);
    journal_close(j->journal);
    lock_release(j->lock);
    free(j->results);
    *j = (struct run_journal){0};
}

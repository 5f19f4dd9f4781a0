/* Holding a lock: renewing it, and finding out that it was taken over. */
#include "records/lock_internal.h"
#include "util/fsx.h"
#include "util/log.h"
#include "util/mem.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

bool lock_file_is(int fd, const char *path)
{
    struct stat open_file, named;
    return fd >= 0 && fstat(fd, &open_file) == 0 && stat(path, &named) == 0 &&
           open_file.st_dev == named.st_dev && open_file.st_ino == named.st_ino;
}

enum status lock_write_temporary(struct lock *l, struct err *e)
{
    enum status st = OK;
    int fd = fsx_open_as(l->temporary, O_WRONLY | O_CREAT | O_TRUNC);
    ENSURE(fd >= 0, fsx_errno_status(errno), "%s: %s", l->path, strerror(errno));
    (void)flock(fd, LOCK_EX | LOCK_NB); /* while it does not say yet whose it is */
    st = fsx_write(fd, l->path, l->text, strlen(l->text), e);
    if (st == OK && !fsx_sync(fd, FSX_ALL))
        st = err_set(e, fsx_errno_status(errno), __FILE__, __LINE__, "%s: fsync: %s", l->path,
                     strerror(errno));
    close(fd);
done:
    return st;
}

/* --- is it still ours? --- */

/* Without a lock file: another process had taken it over, and is done. */
static bool journal_was_replaced(const struct lock *l)
{
    return l->fd >= 0 && access(l->journal, F_OK) == 0 && !lock_file_is(l->fd, l->journal);
}

static enum status say_lost(const struct lock *l, struct err *e)
{
    RAISE(ERR_IO,
          "%s: taken over by %s, because this process did not renew it; it writes nothing "
          "more",
          l->path, l->taker);
}

/* The lock file is not there: somebody removed it. */
static enum status restore(struct lock *l, struct err *e)
{
    PASS(lock_write_temporary(l, e));
    const int why = link(l->temporary, l->path) == 0 ? 0 : errno;
    unlink(l->temporary);
    NEED(why == 0 || why == EEXIST, fsx_errno_status(why), "%s: %s", l->path, strerror(why));
    if (!why) log_warn("%s: was removed while it was held; made again", l->path);
    return OK;
}

/* With the guard held. */
static enum status check(struct lock *l, struct err *e)
{
    enum status st = OK;
    char *text = NULL;
    json_t *holder = NULL;
    if (l->lost) return say_lost(l, e);
    ENSURE(!l->closing, ERR_STOPPED, "%s: released: this process is ending", l->path);
    if (access(l->path, F_OK) != 0 && errno == ENOENT) {
        l->lost = journal_was_replaced(l);
        snprintf(l->taker, sizeof l->taker, "another process, which is done");
        return l->lost ? say_lost(l, e) : restore(l, e);
    }
    TRY(fsx_read(l->path, 1 << 16, &text, NULL, e));
    if (strcmp(text, l->text) == 0) goto done;
    if (json_read_text(l->path, text, strlen(text), &holder, NULL) != OK) holder = NULL;
    snprintf(l->taker, sizeof l->taker, "process %lld on host %s",
             (long long)json_integer_value(json_object_get(holder, "pid")),
             json_text(holder, "host", "unknown"));
    l->lost = true;
    st = say_lost(l, e);
done:
    json_decref(holder);
    free(text);
    return st;
}

enum status lock_check(struct lock *l, struct err *e)
{
    pthread_mutex_lock(&l->guard);
    enum status st = check(l, e);
    pthread_mutex_unlock(&l->guard);
    return st;
}

/* --- renewing --- */

/* Sleeps for an interval; false: the lock is being released. */
static bool sleep_an_interval(struct lock *l)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    const double seconds = lock_interval(l->lease) + 1e-9 * (double)until.tv_nsec;
    until.tv_sec += (time_t)seconds;
    until.tv_nsec = (long)(1e9 * (seconds - (double)(time_t)seconds));
    int why = 0;
    while (!l->closing && why != ETIMEDOUT)
        why = pthread_cond_timedwait(&l->wake, &l->guard, &until);
    return !l->closing;
}

static void *renew(void *lock)
{
    struct lock *l = lock;
    pthread_mutex_lock(&l->guard);
    while (!l->lost && sleep_an_interval(l))
        if (check(l, NULL) == OK) utimensat(AT_FDCWD, l->path, NULL, 0);
    const bool tell = l->lost && !l->closing && l->options.lost;
    pthread_mutex_unlock(&l->guard);
    if (tell) l->options.lost(l->options.context);
    return NULL;
}

enum status lock_hold(struct lock *l, struct err *e)
{
    sigset_t all, kept;
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&l->wake, &attributes);
    pthread_condattr_destroy(&attributes);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &kept); /* signals are the other threads' business */
    l->renewing = pthread_create(&l->thread, NULL, renew, l) == 0;
    pthread_sigmask(SIG_SETMASK, &kept, NULL);
    NEED(l->renewing, ERR_NOMEM, "%s: no thread to renew it", l->path);
    return OK;
}

void lock_free(struct lock *l)
{
    if (!l) return;
    if (l->renewing) {
        pthread_mutex_lock(&l->guard);
        l->closing = true;
        pthread_cond_signal(&l->wake);
        pthread_mutex_unlock(&l->guard);
        pthread_join(l->thread, NULL);
        pthread_cond_destroy(&l->wake);
    }
    pthread_mutex_destroy(&l->guard);
    if (l->fd >= 0) close(l->fd);
    json_decref(l->self);
    free(l->journal);
    free(l->path);
    free(l->temporary);
    free(l->text);
    free(l);
}

static bool is_own(const struct lock *l, const char *path)
{
    char *text = NULL;
    const bool own = fsx_read(path, 1 << 16, &text, NULL, NULL) == OK && strcmp(text, l->text) == 0;
    free(text);
    return own;
}

/* Removes the lock file if it is this process's. Somebody may take it over after the look: so it
 * loses its name first, and gets it back if it is another's. */
static void remove_file(const struct lock *l)
{
    if (!is_own(l, l->path) || rename(l->path, l->temporary) != 0) return;
    if (!is_own(l, l->temporary) && link(l->temporary, l->path) != 0)
        log_warn("%s: taken over while it was released; not put back: %s", l->path,
                 strerror(errno)); /* its holder makes it again */
    unlink(l->temporary);
}

void lock_abandon(struct lock *l)
{
    pthread_mutex_lock(&l->guard);
    l->closing = true;
    remove_file(l);
    pthread_mutex_unlock(&l->guard);
}

void lock_release(struct lock *l)
{
    if (!l) return;
    remove_file(l);
    lock_free(l);
}

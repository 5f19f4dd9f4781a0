/* Taking a lock and holding it. The lock file gets its name by link(2), so that it
 * is never incomplete. A stale one is replaced by rename(2) while flock(2) is held on it; a second
 * process that tries to replace it then finds a different file and starts over. */
#include "records/lock.h"
#include "records/holder.h"
#include "util/clock.h"
#include "util/fsx.h"
#include "util/log.h"
#include "util/mem.h"
#include "util/temporary.h"
#include "util/thread.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* A lock is renewed so often in its lease. */
static const double renewals = 4;

struct lock {
    struct lock_options options;
    char *journal, *path; /* links resolved; path: JOURNAL.lock */
    char *temporary;      /* the lock file before it gets its name, and after it has lost it */
    json_t *self;
    char *text; /* of the lock file: self, lease, flock and the journal's inode */
    double lease;
    int fd;      /* of the journal; -1: there is none */
    bool locked; /* flock(2) is held on fd */
    int wake;    /* an eventfd, by which the thread notices that it is to end */
    pthread_mutex_t guard;
    pthread_t thread;
    bool renewing;      /* the thread runs */
    bool closing, lost; /* under guard */
    char taker[400];    /* of a lost lock */
};

struct attempt {
    struct lock *lock;
    bool busy; /* somebody holds flock on the journal */
    bool taken;
    json_t *holder;     /* of the lock file that is in the way; NULL: not readable */
    double age, lease;  /* seconds since it was renewed, by the clock of the file system */
    struct stat file;   /* what it is, */
    struct stat before; /* and was when it was last looked at */
    double start, seen; /* clock_seconds: of the attempt; since when the lock file is as it is */
    bool renewed;       /* it has been, since the attempt began: the holder is alive */
    int over;           /* 1: the holder's Slurm job is; 0: not; -1: not asked */
    bool told;
};

static double lease_of_environment(void)
{
    const char *text = getenv("QTRAJ_LEASE");
    char *end;
    const double seconds = text ? strtod(text, &end) : 0;
    if (text && *end == '\0' && seconds >= 0.1 && seconds <= 86400) return seconds;
    if (text) log_warn("QTRAJ_LEASE=%s: expected 0.1 to 86400 seconds; taking 120", text);
    return holder_lease(NULL);
}

static double seconds_between(const struct timespec *from, const struct timespec *to)
{
    return (double)(to->tv_sec - from->tv_sec) + 1e-9 * (double)(to->tv_nsec - from->tv_nsec);
}

static bool same(const json_t *holder, const struct lock *l, const char *key)
{
    return json_equal(json_object_get(holder, key), json_object_get(l->self, key));
}

/* --- the journal --- */

/* Whether fd is open on the file at path. */
static bool is_file(int fd, const char *path)
{
    struct stat open_file, named;
    return fd >= 0 && fstat(fd, &open_file) == 0 && stat(path, &named) == 0 &&
           open_file.st_dev == named.st_dev && open_file.st_ino == named.st_ino;
}

/* flock on it, unless it is held already, there is no journal, or the file system has no flock. */
static enum status lock_journal(struct attempt *a, struct err *e)
{
    struct lock *l = a->lock;
    struct stat info;
    a->busy = false;
    if (l->locked && is_file(l->fd, l->journal)) return OK;
    if (l->fd >= 0) close(l->fd);
    l->locked = false;
    l->fd = fsx_open_as(l->journal, O_NONBLOCK | (l->options.create ? O_RDWR | O_CREAT : O_RDONLY));
    if (l->fd < 0 && errno == ENOENT && !l->options.create) return OK;
    NEED(l->fd >= 0 && fstat(l->fd, &info) == 0, fsx_errno_status(errno), "%s: %s", l->journal,
         strerror(errno));
    NEED(S_ISREG(info.st_mode), ERR_IO, "%s: not a regular file", l->journal);
    l->locked = flock(l->fd, LOCK_EX | LOCK_NB) == 0;
    a->busy = !l->locked && errno == EWOULDBLOCK;
    if (!l->locked && !a->busy)
        log_trace("io", "%s: no flock here (%s); the lock file alone keeps others away", l->journal,
                  strerror(errno));
    return OK;
}

/* A holder that wakes up late has the old file open: what it writes is not in the new one. */
static enum status copy_journal(struct attempt *a, struct err *e)
{
    struct lock *l = a->lock;
    AUTO_FREE char *data = NULL;
    size_t n;
    if (l->fd < 0) return OK;
    PASS(fsx_read(l->journal, 0, &data, &n, e));
    PASS(fsx_write_atomic(l->journal, data, n, e));
    PASS(lock_journal(a, e));
    NEED(!a->busy, ERR_LOCKED, "%s: another process took it at the same moment", l->journal);
    return OK;
}

/* --- the lock file --- */

/* Writes it, durably, to a file opened as fd, which is closed. */
static enum status write_text(const struct lock *l, int fd, struct err *e)
{
    NEED(fd >= 0, fsx_errno_status(errno), "%s: %s", l->path, strerror(errno));
    enum status st = fsx_write(fd, l->path, l->text, strlen(l->text), e);
    if (st == OK && !fsx_sync(fd, FSX_ALL))
        st = err_set(e, fsx_errno_status(errno), __FILE__, __LINE__, "%s: fsync: %s", l->path,
                     strerror(errno));
    close(fd);
    return st;
}

/* The temporary file, with what is known of the journal now. */
static enum status prepare(struct lock *l, struct err *e)
{
    struct stat info = {0};
    if (l->fd >= 0 && fstat(l->fd, &info) != 0) info.st_ino = 0;
    json_object_set_new(l->self, "lease", json_real(l->lease));
    json_object_set_new(l->self, "flock", json_boolean(l->locked));
    json_object_set_new(l->self, "journal_inode", json_integer((json_int_t)info.st_ino));
    json_object_set_new(l->self, "journal_device", json_integer((json_int_t)info.st_dev));
    char *text = json_dump_whole(l->self, JSON_COMPACT | JSON_SORT_KEYS);
    NEED(text, ERR_NOMEM, "out of memory for a lock");
    const bool kept = l->text && strcmp(l->text, text) == 0 && access(l->temporary, F_OK) == 0;
    free(l->text);
    l->text = text;
    return kept ? OK : write_text(l, fsx_open_as(l->temporary, O_WRONLY | O_CREAT | O_TRUNC), e);
}

/* Gives the temporary file the lock file's name, unless there is one. Without hard links, it is
 * written under that name. */
static enum status publish(const struct lock *l, bool *done, struct err *e)
{
    *done = link(l->temporary, l->path) == 0;
    if (*done || errno == EEXIST) return OK;
    const int fd = fsx_open_as(l->path, O_WRONLY | O_CREAT | O_EXCL);
    if (fd < 0 && errno == EEXIST) return OK;
    const enum status st = write_text(l, fd, e);
    *done = st == OK;
    if (fd >= 0 && st != OK) unlink(l->path);
    return st;
}

/* Looks at the lock file. False: it is gone, or was replaced as it was read. */
static bool look(struct attempt *a)
{
    const struct lock *l = a->lock;
    struct stat now, again;
    json_drop(&a->holder);
    /* Its own file, touched, has the time of the file system, which other hosts share. */
    if (utimensat(AT_FDCWD, l->temporary, NULL, 0) != 0 || stat(l->temporary, &now) != 0 ||
        stat(l->path, &a->file) != 0)
        return false;
    if (json_read_file(l->path, 1 << 16, &a->holder, NULL) != OK) a->holder = NULL;
    if (stat(l->path, &again) != 0 || again.st_ino != a->file.st_ino) return false;
    a->age = seconds_between(&a->file.st_mtim, &now.st_mtim);
    a->lease = holder_lease(a->holder);
    const bool known = a->before.st_ino == a->file.st_ino;
    if (known && seconds_between(&a->before.st_mtim, &a->file.st_mtim) == 0) return true;
    a->renewed = known;
    a->before = a->file;
    a->seen = clock_seconds();
    a->over = -1;
    return true;
}

/* Whether it held flock on the file that we hold it on now: then it has let go, wherever on this
 * machine it ran, and only the end of a process does that. */
static bool has_let_go(const struct lock *l, const json_t *holder)
{
    return l->locked && json_flag(holder, "flock") && json_text(holder, "boot_id", "")[0] &&
           same(holder, l, "boot_id") && same(holder, l, "journal_inode") &&
           same(holder, l, "journal_device");
}

enum verdict { HELD, WAIT, DEAD, EXPIRED };

static enum verdict judge(struct attempt *a)
{
    struct lock *l = a->lock;
    const enum holder_state state = holder_look(a->holder, l->self, a->age);
    const bool boot = same(a->holder, l, "boot_id"), gone = state == HOLDER_GONE;
    if ((gone && boot) || has_let_go(l, a->holder)) return a->busy ? HELD : DEAD;
    if (a->over < 0 && state == HOLDER_UNKNOWN) a->over = holder_job_is_over(a->holder, l->self);
    if (a->renewed || (!gone && a->over <= 0 && a->age < a->lease)) return HELD;
    /* Hosts may share a name, clocks jump, and Slurm may know another cluster's job of that number:
     * a holder that lives would renew it. */
    const double interval = a->lease / renewals;
    if (a->age < 1.5 * interval) return WAIT;
    if (gone) return a->busy ? EXPIRED : DEAD; /* a server of files may not have noticed */
    return clock_seconds() - a->seen > interval ? EXPIRED : WAIT;
}

/* While flock on the lock file keeps others from doing the same. */
static enum status replace(struct attempt *a, bool expired, struct err *e)
{
    struct lock *l = a->lock;
    char who[400];
    CLEANUP(fsx_close) int fd = fsx_open_as(l->path, O_RDONLY | O_NONBLOCK);
    struct stat file;
    if (fd < 0) return OK;
    if (flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) return OK;
    if (fstat(fd, &file) != 0 || file.st_ino != a->file.st_ino || !is_file(fd, l->path)) return OK;
    NEED(rename(l->temporary, l->path) == 0, ERR_IO, "%s: %s", l->path, strerror(errno));
    a->taken = true;
    log_warn("%s: taken over from %s, %s", l->path, holder_describe(a->holder, who, sizeof who),
             !expired      ? "which is dead"
             : a->over > 0 ? "whose job is over"
                           : "which did not renew it");
    if (!expired) return OK;
    PASS(copy_journal(a, e));
    PASS(prepare(l, e));
    NEED(rename(l->temporary, l->path) == 0, ERR_IO, "%s: %s", l->path, strerror(errno));
    return OK;
}

/* Another lock file is there. A holder that may just have been killed is waited for: a run is often
 * restarted immediately, and a large process takes a while to exit. */
static enum status face(struct attempt *a, struct err *e)
{
    char who[400];
    if (!look(a)) return OK;
    const enum verdict verdict = judge(a);
    if (verdict == DEAD || verdict == EXPIRED) return replace(a, verdict == EXPIRED, e);
    const bool ending = same(a->holder, a->lock, "boot_id") && holder_is_ending(a->holder);
    holder_describe(a->holder, who, sizeof who);
    NEED(verdict == WAIT || clock_seconds() - a->start < (ending ? 30 : 0.25), ERR_LOCKED,
         "another run writes these results: %s is held by %s; it is renewed every %.3g s, and free "
         "%.3g s after the last time",
         a->lock->path, who, a->lease / renewals, a->lease);
    if (verdict == WAIT && !a->told)
        log_info("%s: held by %s, who may be gone: waiting for a renewal", a->lock->path, who);
    a->told = a->told || verdict == WAIT;
    return OK;
}

static enum status try_once(struct attempt *a, struct err *e)
{
    const double moment = 0.5;
    struct lock *l = a->lock;
    PASS(lock_journal(a, e));
    PASS(prepare(l, e));
    if (access(l->path, F_OK) == 0) return face(a, e);
    if (!a->busy) return publish(l, &a->taken, e);
    NEED(clock_seconds() - a->start < moment, ERR_LOCKED,
         "%s: another process is writing it, perhaps under another name (%s is not there)",
         l->journal, l->path);
    return OK;
}

/* --- holding it --- */

static enum status say_lost(const struct lock *l, struct err *e)
{
    RAISE(ERR_IO,
          "%s: taken over by %s, because this process did not renew it; it writes nothing "
          "more",
          l->path, l->taker);
}

/* With the guard held. */
static enum status check(struct lock *l, struct err *e)
{
    json_t *holder = NULL;
    struct err own = {0};
    if (l->lost) return say_lost(l, e);
    NEED(!l->closing, ERR_STOPPED, "%s: released: this process is ending", l->path);
    if (access(l->path, F_OK) != 0 && errno == ENOENT) {
        /* Somebody has removed the lock file: it is made again, unless the journal says that it had
         * been taken over by a process that is done. */
        bool made;
        snprintf(l->taker, sizeof l->taker, "another process, which is done");
        l->lost = l->fd >= 0 && access(l->journal, F_OK) == 0 && !is_file(l->fd, l->journal);
        if (l->lost) return say_lost(l, e);
        PASS(prepare(l, e));
        const enum status st = publish(l, &made, e);
        unlink(l->temporary);
        if (st == OK && made) log_warn("%s: was removed while it was held; made again", l->path);
        return st;
    }
    const enum status st = json_read_file(l->path, 1 << 16, &holder, &own);
    NEED(st == OK || st == ERR_FORMAT, st, "%s", own.text);
    l->lost = !same(holder, l, "token");
    if (l->lost) holder_describe(holder, l->taker, sizeof l->taker);
    json_decref(holder);
    return l->lost ? say_lost(l, e) : OK;
}

enum status lock_check(struct lock *l, struct err *e)
{
    HOLD(&l->guard);
    return check(l, e);
}

static void *renew(void *lock)
{
    struct lock *l = lock;
    const int ms = (int)(1000 * l->lease / renewals);
    bool tell = false;
    while (!tell && poll(&(struct pollfd){.fd = l->wake, .events = POLLIN}, 1, ms) != 1) {
        HOLD(&l->guard);
        if (!l->closing && check(l, NULL) == OK) utimensat(AT_FDCWD, l->path, NULL, 0);
        tell = l->lost && !l->closing;
    }
    if (tell && l->options.lost) l->options.lost(l->options.context);
    return NULL;
}

/* Ends the renewals and frees everything but the lock file. */
static void lock_free(struct lock *l)
{
    if (!l) return;
    if (l->renewing) {
        eventfd_write(l->wake, 1);
        pthread_join(l->thread, NULL);
    }
    pthread_mutex_destroy(&l->guard);
    if (l->fd >= 0) close(l->fd);
    if (l->wake >= 0) close(l->wake);
    temporary_end(l->temporary);
    json_decref(l->self);
    free(l->journal);
    free(l->path);
    free(l->text);
    free(l);
}
CLEANUP_BY_VALUE(struct lock, lock_free)

static bool is_own(const struct lock *l, const char *path)
{
    json_auto_t *holder = NULL;
    return json_read_file(path, 1 << 16, &holder, NULL) == OK && same(holder, l, "token");
}

/* Removes the lock file if it is this process's. Somebody may take it over after the look: so it
 * loses its name first, and gets it back if it is another's. */
void lock_abandon(struct lock *l)
{
    HOLD(&l->guard);
    l->closing = true;
    if (is_own(l, l->path) && rename(l->path, l->temporary) == 0) {
        if (!is_own(l, l->temporary) && link(l->temporary, l->path) != 0)
            log_warn("%s: taken over while it was released; not put back: %s", l->path,
                     strerror(errno)); /* its holder makes it again */
        unlink(l->temporary);
    }
}

void lock_release(struct lock *l)
{
    if (!l) return;
    lock_abandon(l);
    lock_free(l);
}

/* --- taking it --- */

static enum status lock_new(const char *journal, const struct lock_options *o, struct lock **out,
                            struct err *e)
{
    CLEANUP(lock_free_at) struct lock *l = NULL;
    PASS(mem_zero(&l, 1, sizeof *l, "lock", e));
    l->fd = -1;
    l->wake = eventfd(0, EFD_CLOEXEC);
    pthread_mutex_init(&l->guard, NULL);
    if (o) l->options = *o;
    l->lease = lease_of_environment();
    NEED(l->wake >= 0 && (l->self = holder_self()), ERR_NOMEM, "out of memory for a lock");
    PASS(fsx_resolve(journal, &l->journal, e));
    PASS(mem_format(&l->path, e, "%s.lock", l->journal));
    PASS(temporary_begin(l->path, &l->temporary, e));
    *out = TAKE(l);
    return OK;
}

enum status lock_take(const char *journal, const struct lock_options *o, struct lock **out,
                      struct err *e)
{
    enum status st = OK;
    struct attempt a = {.start = clock_seconds(), .over = -1};
    TRY(lock_new(journal, o, &a.lock, e));
    for (;;) {
        TRY(try_once(&a, e));
        if (a.taken) break;
        clock_sleep(0.05);
    }
    unlink(a.lock->temporary);
    temporary_remove_left(a.lock->journal, TEMPORARY_ALL);
    a.lock->renewing = thread_start(renew, a.lock, &a.lock->thread);
    ENSURE(a.lock->renewing, ERR_NOMEM, "%s: no thread to renew it", a.lock->path);
    *out = a.lock;
    a.lock = NULL;
done:
    json_decref(a.holder);
    lock_release(a.lock);
    return st;
}

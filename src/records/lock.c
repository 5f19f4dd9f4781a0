/* Taking a lock. The lock file gets its name by link(2), so that it is never incomplete. A stale
 * one is replaced by rename(2) while flock(2) is held on it; a second process that tries to replace
 * it then finds a different file and starts over. */
#include "records/lock.h"
#include "records/holder.h"
#include "records/lock_internal.h"
#include "util/clock.h"
#include "util/fsx.h"
#include "util/log.h"
#include "util/mem.h"
#include "util/temporary.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const double usual_lease = 120;

/* What is known of a lock file that is in the way. */
struct rival {
    json_t *holder; /* NULL: not readable */
    double age;     /* seconds since it was renewed, by the clock of the file system */
    double lease;
    struct stat file;
};

struct attempt {
    struct lock *lock;
    bool busy; /* somebody holds flock on the journal */
    bool taken;
    double start, seen; /* clock_seconds: of the attempt; since when the lock file is as it is */
    struct stat file;   /* what it was then */
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
    return usual_lease;
}

static double lease_of(const json_t *holder)
{
    const double lease = json_number_get(json_object_get(holder, "lease"));
    return lease > 0 ? lease : usual_lease;
}

static double seconds_between(const struct timespec *from, const struct timespec *to)
{
    return (double)(to->tv_sec - from->tv_sec) + 1e-9 * (double)(to->tv_nsec - from->tv_nsec);
}

/* --- the journal --- */

/* flock on it, unless it is held already, there is no journal, or the file system has no flock. */
static enum status lock_journal(struct attempt *a, struct err *e)
{
    struct lock *l = a->lock;
    struct stat info;
    a->busy = false;
    if (l->locked && lock_file_is(l->fd, l->journal)) return OK;
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
    enum status st = OK;
    struct lock *l = a->lock;
    char *data = NULL;
    size_t n;
    if (l->fd < 0) goto done;
    TRY(fsx_read(l->journal, 0, &data, &n, e));
    TRY(fsx_write_atomic(l->journal, data, n, e));
    TRY(lock_journal(a, e));
    ENSURE(!a->busy, ERR_LOCKED, "%s: another process took it at the same moment", l->journal);
done:
    free(data);
    return st;
}

/* --- the lock file --- */

static enum status write_text(struct lock *l, struct err *e)
{
    struct stat info = {0};
    if (l->fd >= 0 && fstat(l->fd, &info) != 0) info.st_ino = 0;
    json_object_set_new(l->self, "lease", json_real(l->lease));
    json_object_set_new(l->self, "flock", json_boolean(l->locked));
    json_object_set_new(l->self, "journal_inode", json_integer((json_int_t)info.st_ino));
    json_object_set_new(l->self, "journal_device", json_integer((json_int_t)info.st_dev));
    char *text = json_dump_whole(l->self, JSON_COMPACT | JSON_SORT_KEYS);
    NEED(text, ERR_NOMEM, "out of memory for a lock");
    const bool same = l->text && strcmp(l->text, text) == 0 && access(l->temporary, F_OK) == 0;
    free(l->text);
    l->text = text;
    return same ? OK : lock_write_temporary(l, e);
}

/* False: the lock file is gone, or was replaced as it was read. */
static bool look(struct lock *l, struct rival *r)
{
    struct stat now, again;
    json_decref(r->holder);
    r->holder = NULL;
    /* Its own file, touched, has the time of the file system, which other hosts share. */
    if (utimensat(AT_FDCWD, l->temporary, NULL, 0) != 0 || stat(l->temporary, &now) != 0 ||
        stat(l->path, &r->file) != 0)
        return false;
    if (json_read_file(l->path, 1 << 16, &r->holder, NULL) != OK) r->holder = NULL;
    if (stat(l->path, &again) != 0 || again.st_ino != r->file.st_ino) return false;
    r->age = seconds_between(&r->file.st_mtim, &now.st_mtim);
    r->lease = lease_of(r->holder);
    return true;
}

/* Whether it held flock on the file that we hold it on now: then it has let go, wherever on this
 * machine it ran, and only the end of a process does that. */
static bool has_let_go(const struct lock *l, const json_t *holder)
{
    static const char *const same[] = {"boot_id", "journal_inode", "journal_device"};
    bool gone = l->locked && json_is_true(json_object_get(holder, "flock")) &&
                json_text(holder, "boot_id", "")[0];
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        gone =
            gone && json_equal(json_object_get(holder, same[i]), json_object_get(l->self, same[i]));
    return gone;
}

enum verdict { HELD, WAIT, DEAD, EXPIRED };

static bool is_of_this_boot(const struct attempt *a, const struct rival *r)
{
    return json_equal(json_object_get(r->holder, "boot_id"),
                      json_object_get(a->lock->self, "boot_id"));
}

static enum verdict judge(struct attempt *a, const struct rival *r)
{
    struct lock *l = a->lock;
    const enum holder_state state = holder_look(r->holder, l->self, r->age);
    const bool boot = is_of_this_boot(a, r), gone = state == HOLDER_GONE;
    if ((gone && boot) || has_let_go(l, r->holder)) return a->busy ? HELD : DEAD;
    if (a->over < 0 && state == HOLDER_UNKNOWN) a->over = holder_job_is_over(r->holder, l->self);
    if (a->renewed || (!gone && a->over <= 0 && r->age < r->lease)) return HELD;
    /* Hosts may share a name, clocks jump, and Slurm may know another cluster's job of that number:
     * a holder that lives would renew it. */
    const double interval = lock_interval(r->lease);
    if (r->age < 1.5 * interval) return WAIT;
    if (gone) return a->busy ? EXPIRED : DEAD; /* a server of files may not have noticed */
    return clock_seconds() - a->seen > interval ? EXPIRED : WAIT;
}

/* a->seen: since when the lock file has been as it is. */
static void notice(struct attempt *a, const struct rival *r)
{
    const bool known = a->file.st_ino == r->file.st_ino;
    if (known && seconds_between(&a->file.st_mtim, &r->file.st_mtim) == 0) return;
    a->renewed = known;
    a->file = r->file;
    a->seen = clock_seconds();
    a->over = -1;
}

static const char *describe(const struct rival *r, char *out, size_t size)
{
    if (!r->holder)
        snprintf(out, size, "somebody (the file is not readable as a lock)");
    else
        snprintf(out, size, "process %lld on host %s since %s",
                 (long long)json_integer_value(json_object_get(r->holder, "pid")),
                 json_text(r->holder, "host", "unknown"),
                 json_text(r->holder, "utc", "an unknown time"));
    return out;
}

/* While flock on the lock file keeps others from doing the same. */
static enum status replace(struct attempt *a, const struct rival *r, bool expired, struct err *e)
{
    enum status st = OK;
    struct lock *l = a->lock;
    char who[400];
    int fd = fsx_open_as(l->path, O_RDONLY | O_NONBLOCK);
    struct stat file;
    if (fd < 0) goto done;
    if (flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) goto done;
    if (fstat(fd, &file) != 0 || file.st_ino != r->file.st_ino || !lock_file_is(fd, l->path))
        goto done;
    ENSURE(rename(l->temporary, l->path) == 0, ERR_IO, "%s: %s", l->path, strerror(errno));
    a->taken = true;
    log_warn("%s: taken over from %s, %s", l->path, describe(r, who, sizeof who),
             !expired      ? "which is dead"
             : a->over > 0 ? "whose job is over"
                           : "which did not renew it");
    if (!expired) goto done;
    TRY(copy_journal(a, e));
    TRY(write_text(l, e));
    ENSURE(rename(l->temporary, l->path) == 0, ERR_IO, "%s: %s", l->path, strerror(errno));
done:
    if (fd >= 0) close(fd);
    return st;
}

/* How long a holder is waited for that may just have been killed: a run is often restarted
 * immediately, and a large process takes a while to exit. */
static double patience(const struct attempt *a, const struct rival *r)
{
    return is_of_this_boot(a, r) && holder_is_ending(r->holder) ? 30 : 0.25;
}

/* Another lock file is there. */
static enum status face(struct attempt *a, struct rival *r, struct err *e)
{
    char who[400];
    if (!look(a->lock, r)) return OK;
    notice(a, r);
    const enum verdict verdict = judge(a, r);
    if (verdict == DEAD || verdict == EXPIRED) return replace(a, r, verdict == EXPIRED, e);
    describe(r, who, sizeof who);
    NEED(verdict == WAIT || clock_seconds() - a->start < patience(a, r), ERR_LOCKED,
         "%s: held by %s; it is renewed every %.3g s, and free %.3g s after the last time",
         a->lock->path, who, lock_interval(r->lease), r->lease);
    if (verdict == WAIT && !a->told)
        log_info("%s: held by %s, who may be gone: waiting for a renewal", a->lock->path, who);
    a->told = a->told || verdict == WAIT;
    return OK;
}

/* For file systems without hard links: creates the file with O_EXCL and writes it immediately. */
static enum status create_exclusively(struct attempt *a, struct err *e)
{
    struct lock *l = a->lock;
    int fd = fsx_open_as(l->path, O_WRONLY | O_CREAT | O_EXCL);
    if (fd < 0 && errno == EEXIST) return OK;
    NEED(fd >= 0, fsx_errno_status(errno), "%s: %s", l->path, strerror(errno));
    enum status st = fsx_write(fd, l->path, l->text, strlen(l->text), e);
    close(fd);
    if (st != OK) unlink(l->path);
    a->taken = st == OK;
    return st;
}

static enum status try_once(struct attempt *a, struct rival *r, struct err *e)
{
    const double moment = 0.5;
    struct lock *l = a->lock;
    PASS(lock_journal(a, e));
    PASS(write_text(l, e));
    if (access(l->path, F_OK) == 0) return face(a, r, e);
    if (a->busy) {
        NEED(clock_seconds() - a->start < moment, ERR_LOCKED,
             "%s: another process is writing it, perhaps under another name (%s is not there)",
             l->journal, l->path);
        return OK;
    }
    if (link(l->temporary, l->path) == 0) {
        a->taken = true;
        return OK;
    }
    if (errno == EPERM || errno == EOPNOTSUPP || errno == ENOSYS) return create_exclusively(a, e);
    NEED(errno == EEXIST, fsx_errno_status(errno), "%s: %s", l->path, strerror(errno));
    return OK;
}

/* --- all of it --- */

/* A file on the way to a lock whose writer was killed before it said who it is: nobody has locked
 * it and it is not whole. */
static bool is_abandoned(const char *path)
{
    json_t *holder = NULL;
    const int fd = fsx_open_as(path, O_RDONLY | O_NONBLOCK);
    const bool abandoned = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 &&
                           json_read_file(path, 1 << 16, &holder, NULL) != OK;
    json_decref(holder);
    if (fd >= 0) close(fd);
    return abandoned;
}

/* Removes what killed runs left beside the journal on their way to the lock. */
static void remove_leftovers(const struct lock *l)
{
    char *folder = NULL, *path = NULL;
    const char *slash = strrchr(l->path, '/'), *base = slash ? slash + 1 : l->path;
    const size_t n = strlen(base);
    DIR *dir = fsx_parent(l->path, &folder, NULL) == OK ? opendir(folder) : NULL;
    for (struct dirent *d; dir && (d = readdir(dir)) != NULL;) {
        struct rival r = {.lease = usual_lease};
        if (strncmp(d->d_name, base, n) != 0 || d->d_name[n] != '.') continue;
        if (mem_format(&path, NULL, "%s/%s", folder, d->d_name) != OK) break;
        if (json_read_file(path, 1 << 16, &r.holder, NULL) == OK
                ? holder_look(r.holder, l->self, 0) == HOLDER_GONE
                : is_abandoned(path))
            unlink(path);
        json_decref(r.holder);
        free(path);
    }
    if (dir) closedir(dir);
    free(folder);
    temporary_remove_left(l->journal, TEMPORARY_ALL);
}

static enum status lock_new(const char *journal, const struct lock_options *o, struct lock **out,
                            struct err *e)
{
    enum status st = OK;
    struct lock *l = NULL;
    TRY(mem_zero(&l, 1, sizeof *l, "lock", e));
    l->fd = -1;
    pthread_mutex_init(&l->guard, NULL);
    if (o) l->options = *o;
    l->lease = lease_of_environment();
    ENSURE(l->self = holder_self(), ERR_NOMEM, "out of memory for a lock");
    TRY(fsx_resolve(journal, &l->journal, e));
    TRY(mem_format(&l->path, e, "%s.lock", l->journal));
    TRY(mem_format(&l->temporary, e, "%s.%s", l->path, json_text(l->self, "token", "")));
    *out = l;
    l = NULL;
done:
    lock_free(l);
    return st;
}

enum status lock_take(const char *journal, const struct lock_options *o, struct lock **out,
                      struct err *e)
{
    enum status st = OK;
    struct attempt a = {.start = clock_seconds(), .over = -1};
    struct rival r = {0};
    TRY(lock_new(journal, o, &a.lock, e));
    for (;;) {
        TRY(try_once(&a, &r, e));
        if (a.taken) break;
        clock_sleep(0.05);
    }
    unlink(a.lock->temporary);
    remove_leftovers(a.lock);
    TRY(lock_hold(a.lock, e));
    *out = a.lock;
    a.lock = NULL;
done:
    json_decref(r.holder);
    if (a.lock) unlink(a.lock->temporary);
    if (a.taken) /* but it cannot be held */
        lock_release(a.lock);
    else
        lock_free(a.lock);
    return st;
}

struct lock_holder lock_look(const char *journal)
{
    struct lock_holder out = {0};
    char *resolved = NULL, *path = NULL;
    json_t *holder = NULL, *self = NULL;
    struct stat file;
    struct timespec now;
    if (fsx_resolve(journal, &resolved, NULL) != OK ||
        mem_format(&path, NULL, "%s.lock", resolved) != OK || stat(path, &file) != 0)
        goto done;
    const enum status read = json_read_file(path, 1 << 16, &holder, NULL);
    if (read != OK && access(path, F_OK) != 0) goto done; /* it was released just now */
    self = holder_self();
    clock_gettime(CLOCK_REALTIME, &now);
    const double age = seconds_between(&file.st_mtim, &now);
    const enum holder_state state = holder_look(holder, self, age);
    out.certain = state == HOLDER_RUNS;
    out.ending = out.certain && holder_is_ending(holder);
    out.renewed = age < lease_of(holder);
    out.held = out.certain || (state == HOLDER_UNKNOWN && out.renewed);
    out.pid = json_integer_value(json_object_get(holder, "pid"));
    snprintf(out.host, sizeof out.host, "%s", json_text(holder, "host", "unknown"));
    snprintf(out.utc, sizeof out.utc, "%s", json_text(holder, "utc", "unknown"));
done:
    json_decref(holder);
    json_decref(self);
    free(path);
    free(resolved);
    return out;
}

/* Whether another process holds flock on the journal. */
static bool is_busy(const char *journal)
{
    const int fd = open(journal, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    const bool busy = fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (fd >= 0) close(fd);
    return busy;
}

enum status lock_check_free(const char *journal, struct err *e)
{
    const double moment = 0.25, end = clock_seconds() + moment;
    struct lock_holder h;
    for (;;) {
        h = lock_look(journal);
        if (!h.certain || h.ending || !h.renewed || !is_busy(journal)) return OK;
        if (clock_seconds() > end) break;
        clock_sleep(0.05);
    }
    RAISE(ERR_LOCKED, "%s.lock: held by process %lld on host %s since %s", journal,
          (long long)h.pid, h.host, h.utc);
}

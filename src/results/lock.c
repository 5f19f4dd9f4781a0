/* The lock is a file with the holder's identity, created by link(2), so that it is never
 * incomplete. A lock of a dead process of this host is replaced by rename(2) while flock(2) is held
 * on the old file; a second process that tries to replace it then finds a different file and starts
 * over. */
#include "results/results.h"
#include "util/clock.h"
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

struct lock {
    char *path;
    int fd; /* this process's file; open, so that its inode number is not reused */
};

/* --- identity of this process --- */

static void first_line(const char *path, char *out, size_t size)
{
    FILE *f = fopen(path, "r");
    out[0] = '\0';
    if (!f) return;
    if (fgets(out, (int)size, f)) out[strcspn(out, "\n")] = '\0';
    fclose(f);
}

/* Field 22 of /proc/PID/stat: clock ticks from boot to the start of the process; -1 if unknown.
 * *zombie (may be NULL): it has ended, but its parent has not waited for it. The name, field 2, may
 * contain blanks and brackets, so fields are counted from the last ')'. */
static long long process_start(long pid, bool *zombie)
{
    char path[64], line[1024];
    snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    first_line(path, line, sizeof line);
    const char *p = strrchr(line, ')');
    p = p && p[1] ? p + 2 : NULL;
    if (zombie) *zombie = p && (*p == 'Z' || *p == 'X');
    for (int field = 3; p && field < 22; field++) p = strchr(p + 1, ' ');
    return p && *p ? atoll(p + 1) : -1;
}

/* Process ids are valid only inside one namespace. */
static void pid_namespace(char *out, size_t size)
{
    ssize_t n = readlink("/proc/self/ns/pid", out, size - 1);
    out[n > 0 ? n : 0] = '\0';
}

static json_t *identity(void)
{
    char host[256] = "", boot[64], space[64], utc[21];
    gethostname(host, sizeof host - 1);
    first_line("/proc/sys/kernel/random/boot_id", boot, sizeof boot);
    pid_namespace(space, sizeof space);
    clock_utc(utc);
    return json_pack("{s:s, s:I, s:s, s:s, s:I, s:s}", "host", host, "pid", (json_int_t)getpid(),
                     "boot_id", boot, "pid_namespace", space, "start",
                     (json_int_t)process_start(getpid(), NULL), "utc", utc);
}

/* --- state of the holder --- */

static bool same_text(const json_t *a, const json_t *b, const char *key)
{
    return strcmp(json_text(a, key, ""), json_text(b, key, "")) == 0;
}

/* Whether the holder is running on this host now. */
static bool is_running(long pid, long long start)
{
    if (kill((pid_t)pid, 0) != 0 && errno == ESRCH) return false;
    bool zombie;
    long long now = process_start(pid, &zombie);
    return !zombie && (start <= 0 || now <= 0 || now == start); /* else the id was reused */
}

enum holder { HOLDER_DEAD, HOLDER_RUNS_HERE, HOLDER_ELSEWHERE };

/* Returns that the holder is dead only if that is certain. */
static enum holder look_at(const json_t *holder, const json_t *me)
{
    long pid = (long)json_integer_value(json_object_get(holder, "pid"));
    long long start = json_integer_value(json_object_get(holder, "start"));
    if (pid <= 0 || !same_text(holder, me, "host")) return HOLDER_ELSEWHERE;
    if (!same_text(holder, me, "boot_id")) return HOLDER_DEAD;
    if (!same_text(holder, me, "pid_namespace")) return HOLDER_ELSEWHERE;
    return is_running(pid, start) ? HOLDER_RUNS_HERE : HOLDER_DEAD;
}

struct lock_holder lock_look(const char *results)
{
    struct lock_holder out = {0};
    char *path = NULL;
    json_t *holder = NULL, *me = NULL;
    if (mem_format(&path, NULL, "%s.lock", results) != OK || access(path, F_OK) != 0) goto done;
    me = identity();
    enum status read = json_read_file(path, 0, &holder, NULL);
    if (read != OK && access(path, F_OK) != 0) goto done; /* it was released just now */
    const enum holder state = read == OK && me ? look_at(holder, me) : HOLDER_ELSEWHERE;
    out.held = state != HOLDER_DEAD;
    out.certain = state == HOLDER_RUNS_HERE;
    out.pid = json_integer_value(json_object_get(holder, "pid"));
    snprintf(out.host, sizeof out.host, "%s", json_text(holder, "host", "unknown"));
    snprintf(out.utc, sizeof out.utc, "%s", json_text(holder, "utc", "unknown"));
done:
    json_decref(holder);
    json_decref(me);
    free(path);
    return out;
}

/* --- taking --- */

static bool is_file_at(int fd, const char *path)
{
    struct stat open_file, named;
    return fstat(fd, &open_file) == 0 && stat(path, &named) == 0 &&
           open_file.st_dev == named.st_dev && open_file.st_ino == named.st_ino;
}

/* Replaces an existing lock if its holder is dead. *taken stays false if the caller should try
 * again: another process took the lock meanwhile, or its holder is running and there is time to
 * wait. */
static enum status take_over(struct lock *l, const char *temporary, const json_t *me, int *patience,
                             bool *taken, struct err *e)
{
    enum status st = OK;
    json_t *holder = NULL;
    int fd = open(l->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT) goto done;
    ENSURE(fd >= 0, ERR_IO, "%s: %s", l->path, strerror(errno));
    /* On file systems without flock there is a small race between two processes that replace a
     * stale lock. */
    while (flock(fd, LOCK_EX) != 0 && errno == EINTR) continue;
    if (!is_file_at(fd, l->path)) goto done;
    if (json_read_file(l->path, 0, &holder, NULL) != OK) {
        if (!is_file_at(fd, l->path)) goto done;
        FAIL(ERR_LOCKED, "%s: not readable as a lock; delete it if no run is going on", l->path);
    }
    enum holder state = look_at(holder, me);
    const long long pid = json_integer_value(json_object_get(holder, "pid"));
    if (state == HOLDER_RUNS_HERE && (*patience)-- > 0) goto done;
    ENSURE(state == HOLDER_DEAD, ERR_LOCKED,
           "%s: held by process %lld on host %s since %s; if that run is dead, delete the file",
           l->path, pid, json_text(holder, "host", "unknown"),
           json_text(holder, "utc", "an unknown time"));
    log_warn("%s: taken over from process %lld of this host, which is dead", l->path, pid);
    ENSURE(rename(temporary, l->path) == 0, ERR_IO, "%s: %s", l->path, strerror(errno));
    *taken = true;
done:
    json_decref(holder);
    if (fd >= 0) close(fd);
    return st;
}

/* For file systems without hard links: creates the file with O_EXCL and writes it immediately. */
static enum status create_exclusively(struct lock *l, const char *text, bool *taken, struct err *e)
{
    enum status st = OK;
    int fd = open(l->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0 && errno == EEXIST) goto done;
    ENSURE(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text),
           fsx_errno_status(errno), "%s: %s", l->path, strerror(errno));
    close(l->fd);
    l->fd = fd;
    fd = -1;
    *taken = true;
done:
    if (fd >= 0) {
        unlink(l->path);
        close(fd);
    }
    return st;
}

static enum status put_in_place(struct lock *l, const char *temporary, const json_t *me,
                                const char *text, int *patience, bool *taken, struct err *e)
{
    if (link(temporary, l->path) == 0) {
        *taken = true;
        return OK;
    }
    if (errno == EPERM || errno == EOPNOTSUPP || errno == ENOSYS) {
        PASS(create_exclusively(l, text, taken, e));
        if (*taken) return OK;
        errno = EEXIST;
    }
    NEED(errno == EEXIST, fsx_errno_status(errno), "%s: %s", l->path, strerror(errno));
    PASS(take_over(l, temporary, me, patience, taken, e));
    return OK;
}

static void lock_free(struct lock *l)
{
    if (!l) return;
    if (l->fd >= 0) close(l->fd);
    free(l->path);
    free(l);
}

enum status lock_take(const char *results, struct lock **out, struct err *e)
{
    enum status st = OK;
    char *temporary = NULL, *text = NULL;
    bool taken = false;
    struct lock *l = NULL;
    json_t *me = identity();
    text = me ? json_dumps(me, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    ENSURE(text, ERR_NOMEM, "out of memory for a lock");
    TRY(mem_zero(&l, 1, sizeof *l, "lock", e));
    l->fd = -1;
    TRY(mem_format(&l->path, e, "%s.lock", results));
    TRY(mem_format(&temporary, e, "%s.%lld.%ld", l->path,
                   (long long)json_integer_value(json_object_get(me, "start")), (long)getpid()));
    TRY(fsx_write_atomic(temporary, text, strlen(text), e));
    l->fd = open(temporary, O_RDONLY | O_CLOEXEC);
    ENSURE(l->fd >= 0, ERR_IO, "%s: %s", temporary, strerror(errno));
    for (int attempt = 0, patience = 5; !taken; attempt++) {
        ENSURE(attempt < 100, ERR_LOCKED, "%s: other processes keep taking this lock", l->path);
        TRY(put_in_place(l, temporary, me, text, &patience, &taken, e));
        /* Waits up to half a second for a holder that was just killed: a large process takes a
         * while to exit, and a run is often restarted immediately. */
        if (!taken) nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    }
    *out = l;
    l = NULL;
done:
    if (st != OK && temporary) err_rename(e, temporary, l->path);
    if (temporary) unlink(temporary);
    free(temporary);
    free(text);
    json_decref(me);
    lock_free(l);
    return st;
}

void lock_release(struct lock *l)
{
    if (!l) return;
    /* The file may have been deleted by hand and another run may hold the lock now. */
    if (is_file_at(l->fd, l->path)) unlink(l->path);
    lock_free(l);
}

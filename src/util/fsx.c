#include "util/fsx.h"
#include "util/mem.h"
#include "util/temporary.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

enum status fsx_errno_status(int code)
{
    if (code == ENOMEM) return ERR_NOMEM;
    return code == ENOSPC || code == EDQUOT || code == EFBIG ? ERR_FULL : ERR_IO;
}

void fsx_close(const int *fd)
{
    if (*fd >= 0) close(*fd);
}

void fsx_closedir(DIR **dir)
{
    if (*dir) closedir(*dir);
}

ssize_t fsx_pread(int fd, void *dst, size_t n, int64_t offset)
{
    static const long pauses[] = {1000000, 50000000, 500000000}; /* ns */
    enum { PAUSES = sizeof pauses / sizeof *pauses };
    for (int failed = 0;;) {
        ssize_t got = pread(fd, dst, n, (off_t)offset);
        if (got >= 0) return got;
        if (errno == EINTR) continue;
        if ((errno != EIO && errno != ETIMEDOUT) || failed == PAUSES) return -1;
        nanosleep(&(struct timespec){.tv_nsec = pauses[failed++]}, NULL);
    }
}

int fsx_open_as(const char *path, int flags)
{
    return (int)TEMP_FAILURE_RETRY(open(path, flags | O_CLOEXEC, 0666));
}

bool fsx_truncate(int fd, int64_t size)
{
    return TEMP_FAILURE_RETRY(ftruncate(fd, (off_t)size)) == 0;
}

bool fsx_sync(int fd, enum fsx_what what)
{
    return TEMP_FAILURE_RETRY(what == FSX_DATA ? fdatasync(fd) : fsync(fd)) == 0;
}

enum status fsx_open(const char *path, int *fd, int64_t *size, struct err *e)
{
    struct stat info;
    CLEANUP(fsx_close)
    int f = fsx_open_as(path, O_RDONLY | O_NONBLOCK); /* else a FIFO would be waited for */
    NEED(f >= 0 && fstat(f, &info) == 0, ERR_IO, "%s: %s", path, strerror(errno));
    NEED(S_ISREG(info.st_mode), ERR_IO, "%s: not a regular file", path);
    if (size) *size = info.st_size;
    *fd = f;
    f = -1;
    return OK;
}

enum status fsx_read(const char *path, size_t max_bytes, char **data, size_t *n, struct err *e)
{
    AUTO_FREE char *buffer = NULL;
    int64_t bytes = 0;
    size_t size, got = 0;
    CLEANUP(fsx_close) int fd = -1;
    PASS(fsx_open(path, &fd, &bytes, e));
    size = (size_t)bytes;
    NEED(!max_bytes || size <= max_bytes, ERR_FORMAT,
         "%s: %zu bytes, more than the %zu that are read", path, size, max_bytes);
    PASS(mem_alloc(&buffer, bytes + 1, 1, path, e));
    while (got < size) {
        ssize_t r = fsx_pread(fd, buffer + got, size - got, (int64_t)got);
        NEED(r >= 0, ERR_IO, "%s: %s", path, strerror(errno));
        if (r == 0) break;
        got += (size_t)r;
    }
    buffer[got] = '\0';
    *data = TAKE(buffer);
    if (n) *n = got;
    return OK;
}

bool fsx_text(const char *path, char *text, size_t size)
{
    size_t n = 0;
    const int fd = fsx_open_as(path, O_RDONLY);
    for (ssize_t got; fd >= 0 && n < size - 1; n += (size_t)got)
        if ((got = TEMP_FAILURE_RETRY(read(fd, text + n, size - 1 - n))) <= 0) break;
    if (fd >= 0) close(fd);
    text[n] = '\0';
    return n > 0;
}

enum status fsx_sync_parent(const char *path, struct err *e)
{
    AUTO_FREE char *parent = NULL;
    CLEANUP(fsx_close) int fd = -1;
    PASS(fsx_parent(path, &parent, e));
    fd = fsx_open_as(parent, O_RDONLY | O_DIRECTORY);
    /* Some file systems refuse fsync of a folder (EINVAL); the rename has happened all the same. */
    NEED(fd >= 0, ERR_IO, "%s: %s", parent, strerror(errno));
    NEED(fsx_sync(fd, FSX_ALL) || errno == EINVAL, fsx_errno_status(errno), "%s: fsync: %s", parent,
         strerror(errno));
    return OK;
}

enum status fsx_write(int fd, const char *path, const void *data, size_t n, struct err *e)
{
    for (size_t put = 0; put < n;) {
        ssize_t r = write(fd, (const char *)data + put, n - put);
        if (r < 0 && errno == EINTR) continue;
        NEED(r > 0, fsx_errno_status(errno), "%s: %s", path, strerror(errno));
        put += (size_t)r;
    }
    return OK;
}

enum status fsx_write_file(const char *path, const void *data, size_t n, struct err *e)
{
    CLEANUP(fsx_close) int fd = fsx_open_as(path, O_WRONLY | O_CREAT | O_TRUNC);
    NEED(fd >= 0, fsx_errno_status(errno), "%s: %s", path, strerror(errno));
    PASS(fsx_write(fd, path, data, n, e));
    int closed = close(fd);
    fd = -1;
    NEED(closed == 0, fsx_errno_status(errno), "%s: %s", path, strerror(errno));
    return OK;
}

enum status fsx_write_atomic(const char *path, const void *data, size_t n, struct err *e)
{
    CLEANUP(temporary_end_at) char *temporary = NULL;
    PASS(temporary_begin(path, &temporary, e));
    enum status st = fsx_write_file(temporary, data, n, e);
    if (st == OK) st = fsx_publish(temporary, path, e);
    if (st != OK) err_rename(e, temporary, path);
    return st;
}

enum status fsx_publish(const char *from, const char *to, struct err *e)
{
    CLEANUP(fsx_close) int fd = fsx_open_as(from, O_RDONLY);
    NEED(fd >= 0, ERR_IO, "%s: %s", from, strerror(errno));
    NEED(fsx_sync(fd, FSX_ALL), fsx_errno_status(errno), "%s: fsync: %s", from, strerror(errno));
    NEED(rename(from, to) == 0, fsx_errno_status(errno), "%s: rename: %s", to, strerror(errno));
    return fsx_sync_parent(to, e);
}

enum status fsx_make_parent(const char *path, struct err *e)
{
    AUTO_FREE char *parent = NULL;
    PASS(fsx_parent(path, &parent, e));
    for (char *p = parent + 1;; p++) {
        if (*p != '/' && *p != '\0') continue;
        char kept = *p;
        *p = '\0';
        int why = mkdir(parent, 0777) == 0 ? 0 : errno;
        NEED(why == 0 || why == EEXIST || fsx_is_dir(parent), fsx_errno_status(why), "%s: %s",
             parent, strerror(why));
        *p = kept;
        if (!kept) break;
    }
    NEED(fsx_is_dir(parent), ERR_IO, "%s: not a folder", parent);
    return OK;
}

bool fsx_is_empty_dir(const char *path)
{
    CLEANUP(fsx_closedir) DIR *dir = opendir(path);
    for (struct dirent *d; dir && (d = readdir(dir)) != NULL;)
        if (strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0) return false;
    return dir != NULL;
}

enum status fsx_join(const char *base, const char *path, char **out, struct err *e)
{
    if (path[0] == '/' || base[0] == '\0') return mem_string(out, path, e);
    return mem_format(out, e, "%s/%s", base, path);
}

enum status fsx_parent(const char *path, char **out, struct err *e)
{
    const char *slash = strrchr(path, '/');
    if (!slash) return mem_string(out, ".", e);
    if (slash == path) return mem_string(out, "/", e);
    return mem_format(out, e, "%.*s", (int)(slash - path), path);
}

enum status fsx_resolve(const char *path, char **out, struct err *e)
{
    char target[4096];
    AUTO_FREE char *folder = NULL, *now = NULL;
    PASS(mem_string(&now, path, e));
    for (int links = 0;; links++) {
        const ssize_t n = readlink(now, target, sizeof target - 1);
        if (n < 0) break;
        NEED(links < 40, ERR_IO, "%s: too many symbolic links", path);
        target[n] = '\0';
        PASS(fsx_parent(now, &folder, e));
        mem_drop(&now);
        PASS(fsx_join(strcmp(folder, ".") == 0 ? "" : folder, target, &now, e));
        mem_drop(&folder);
    }
    *out = TAKE(now);
    return OK;
}

bool fsx_is_dir(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

bool fsx_is_file(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISREG(info.st_mode);
}

bool fsx_has(const char *fmt, ...)
{
    char path[PATH_MAX];
    va_list ap;
    va_start(ap, fmt);
    const int n = vsnprintf(path, sizeof path, fmt, ap);
    va_end(ap);
    return n > 0 && n < PATH_MAX && fsx_is_file(path);
}

bool fsx_same(const char *a, const char *b)
{
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* --- before a folder is written --- */

/* The first of the folder and those above it that is there; the caller frees it. NULL: no memory.
 */
static char *nearest(const char *path)
{
    char *folder = NULL, *above;
    if (mem_string(&folder, path, NULL) != OK) return NULL;
    while (access(folder, F_OK) != 0 && (errno == ENOENT || errno == ENOTDIR) &&
           strcmp(folder, ".") != 0) {
        if (fsx_parent(folder, &above, NULL) != OK) above = NULL;
        free(folder);
        if (!above) return NULL;
        folder = above;
    }
    return folder;
}

/* Whether it is on a file system of the kernel, where root may write and nobody can make a file. */
static bool of_kernel(const char *folder)
{
    struct statfs s;
    return statfs(folder, &s) == 0 && (s.f_type == PROC_SUPER_MAGIC || s.f_type == SYSFS_MAGIC);
}

bool folder_is_writable(const char *path, char *why, size_t size)
{
    char *folder = nearest(path);
    why[0] = '\0';
    if (folder && access(folder, F_OK) == 0 && !fsx_is_dir(folder))
        snprintf(why, size, "%s is no folder", folder);
    else if (folder && access(folder, W_OK | X_OK) != 0)
        snprintf(why, size, "%s: %s", folder, strerror(errno));
    else if (folder && of_kernel(folder))
        snprintf(why, size, "%s: no files can be made there", folder);
    free(folder);
    return !why[0];
}

int64_t folder_free_bytes(const char *path)
{
    struct statvfs s;
    char *folder = nearest(path);
    const bool known = folder && statvfs(folder, &s) == 0;
    free(folder);
    return known ? (int64_t)s.f_bavail * (int64_t)s.f_frsize : -1;
}

#include "stage/tree.h"
#include "util/fsx.h"
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { DESCRIPTORS = 16 };

static _Thread_local int64_t total;

static int add(const char *path, const struct stat *s, int kind, struct FTW *at)
{
    (void)path, (void)at;
    total += kind == FTW_F ? (int64_t)s->st_size : 0;
    return 0;
}

int64_t tree_bytes(const char *path)
{
    total = 0;
    (void)nftw(path, add, DESCRIPTORS, FTW_PHYS);
    return total;
}

static int sync_one(const char *path, const struct stat *s, int kind, struct FTW *at)
{
    (void)at;
    if (kind == FTW_D && (s->st_mode & S_IRWXU) != S_IRWXU) (void)chmod(path, s->st_mode | S_IRWXU);
    const int fd = kind == FTW_F || kind == FTW_D ? fsx_open_as(path, O_RDONLY) : -1;
    const bool failed = fd >= 0 && !fsx_sync(fd, FSX_ALL);
    if (fd >= 0) close(fd);
    return failed;
}

enum status tree_sync(const char *path, struct err *e)
{
    NEED(nftw(path, sync_one, DESCRIPTORS, FTW_PHYS) == 0, fsx_errno_status(errno),
         "%s: cannot be made durable: %s", path, strerror(errno));
    return OK;
}

static int drop(const char *path, const struct stat *s, int kind, struct FTW *at)
{
    (void)s, (void)kind, (void)at;
    return remove(path) != 0 && errno != ENOENT;
}

enum status tree_remove(const char *path, struct err *e)
{
    NEED(nftw(path, drop, DESCRIPTORS, FTW_PHYS | FTW_DEPTH) == 0 || errno == ENOENT, ERR_IO,
         "%s: cannot be removed: %s", path, strerror(errno));
    return OK;
}

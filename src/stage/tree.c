#include "stage/tree.h"
#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>

enum { DESCRIPTORS = 16 };

static _Thread_local int64_t total;

static int add(const char *path, const struct stat *s, int kind, struct FTW *at)
{
    (void)path;
    (void)at;
    if (kind == FTW_F) total += (int64_t)s->st_size;
    return 0;
}

int64_t tree_bytes(const char *path)
{
    total = 0;
    (void)nftw(path, add, DESCRIPTORS, FTW_PHYS);
    return total;
}

static int drop(const char *path, const struct stat *s, int kind, struct FTW *at)
{
    (void)s;
    (void)kind;
    (void)at;
    return remove(path) == 0 || errno == ENOENT ? 0 : errno;
}

enum status tree_remove(const char *path, struct err *e)
{
    const int failed = nftw(path, drop, DESCRIPTORS, FTW_PHYS | FTW_DEPTH);
    NEED(failed == 0 || (failed < 0 && errno == ENOENT), ERR_IO, "%s: cannot be removed: %s", path,
         strerror(failed > 0 ? failed : errno));
    return OK;
}

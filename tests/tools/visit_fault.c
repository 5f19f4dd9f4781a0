/* A library for LD_PRELOAD with which a test stops the workers of a run in their visits. In the
 * folder $FAULTS, when a worker opens weights of the checkpoint NAME:
 *
 *   at/PID      is written: NAME
 *   hold        while it is there, the worker waits
 *   kill.NAME.* one of them is removed and the process killed
 *   hang.NAME   is removed, and the process waits for ever
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <glob.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int true_open(const char *path, int flags, int mode)
{
    int (*next)(const char *, int, ...) = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, "open");
    return next(path, flags, mode);
}

/* Rank 0 reads weights too. Processes that replace a rank are few in their own world. */
static int is_master(void)
{
    const char *rank = getenv("OMPI_COMM_WORLD_RANK"), *size = getenv("OMPI_COMM_WORLD_SIZE");
    return !rank || !size || (atoi(rank) == 0 && atoi(size) > 2);
}

/* Takes one of the files that the pattern names; 0: there is none, or another process was faster.
 */
static int take(const char *folder, const char *what, const char *name)
{
    char pattern[4096];
    glob_t found;
    int taken = 0;
    snprintf(pattern, sizeof pattern, "%s/%s.%s*", folder, what, name);
    if (glob(pattern, 0, NULL, &found) != 0) return 0;
    for (size_t i = 0; i < found.gl_pathc && !taken; i++) taken = unlink(found.gl_pathv[i]) == 0;
    globfree(&found);
    return taken;
}

static void note(const char *folder, const char *name)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/at/%d", folder, (int)getpid());
    int fd = true_open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || write(fd, name, strlen(name)) < 0) abort();
    close(fd);
}

static void visit(const char *folder, const char *path)
{
    char name[256], hold[4096];
    const char *end = strrchr(path, '/'), *start = end;
    while (start > path && start[-1] != '/') start--;
    snprintf(name, sizeof name, "%.*s", (int)(end - start), start);
    snprintf(hold, sizeof hold, "%s/hold", folder);
    note(folder, name);
    if (take(folder, "kill", name)) kill(getpid(), SIGKILL);
    int hangs = take(folder, "hang", name);
    while (hangs || access(hold, F_OK) == 0)
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
}

static void look(const char *path)
{
    const char *folder = getenv("FAULTS");
    const size_t n = strlen(path);
    const char ending[] = ".safetensors";
    if (!folder || n < sizeof ending || strcmp(path + n - strlen(ending), ending) != 0) return;
    if (!is_master()) visit(folder, path);
}

int open(const char *path, int flags, ...)
{
    va_list ap;
    va_start(ap, flags);
    int mode = va_arg(ap, int);
    va_end(ap);
    look(path);
    return true_open(path, flags, mode);
}

int open64(const char *path, int flags, ...)
{
    va_list ap;
    va_start(ap, flags);
    int mode = va_arg(ap, int);
    va_end(ap);
    look(path);
    return true_open(path, flags | O_LARGEFILE, mode);
}

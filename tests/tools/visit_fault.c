/* A library for LD_PRELOAD with which a test stops the workers of a run in their visits. In the
 * folder $FAULTS, when a worker opens weights of the checkpoint NAME:
 *
 *   at/PID      is written: NAME; removed before the worker says that the visit is done
 *   hold        while it is there, the worker waits
 *   kill.NAME.* one of them is removed and the process killed
 *   hang.NAME   is removed, and the process waits for ever
 *   deaf        while it is there, ranks do not reach `qtraj launch`
 *   hang.start  likewise when it first agrees with the other ranks
 *   load.RANK.S when the rank is loaded, init.RANK.S before and met.RANK.S after MPI_Init: one of
 *               them is removed, and the rank gets signal S
 *   late.NAME   while it is there, the worker waits before it sends its first result, when
 *               late/PID is written; what then wants to end it waits until it has sent all
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <glob.h>
#include <mpi.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static char visited[256];      /* the current checkpoint */
static atomic_int late, ended; /* it has waited with its result; and has sent all */

static void doze(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
}

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

/* Files appear whole. */
static void note(const char *folder, const char *kind, const char *name)
{
    char path[4096], whole[4096];
    snprintf(path, sizeof path, "%s/.%s.%d", folder, kind, (int)getpid());
    snprintf(whole, sizeof whole, "%s/%s/%d", folder, kind, (int)getpid());
    int fd = true_open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || write(fd, name, strlen(name)) < 0 || rename(path, whole) != 0) abort();
    close(fd);
}

static void visit(const char *folder, const char *path)
{
    char hold[4096];
    const char *end = strrchr(path, '/'), *start = end;
    while (start > path && start[-1] != '/') start--;
    snprintf(visited, sizeof visited, "%.*s", (int)(end - start), start);
    snprintf(hold, sizeof hold, "%s/hold", folder);
    note(folder, "at", visited);
    if (take(folder, "kill", visited)) kill(getpid(), SIGKILL);
    int hangs = take(folder, "hang", visited);
    while (hangs || access(hold, F_OK) == 0) doze();
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

/* RANK.S at this moment of the process's start. */
static void begin(const char *moment)
{
    static const int signals[] = {SIGKILL, SIGSTOP};
    const char *folder = getenv("FAULTS"), *rank = getenv("OMPI_COMM_WORLD_RANK");
    char name[64];
    for (size_t i = 0; folder && rank && i < sizeof signals / sizeof *signals; i++) {
        snprintf(name, sizeof name, "%s.%d", rank, signals[i]);
        if (take(folder, moment, name)) kill(getpid(), signals[i]);
    }
}

__attribute__((constructor)) static void load(void)
{
    const char *folder = getenv("FAULTS");
    char deaf[4096];
    snprintf(deaf, sizeof deaf, "%s/deaf", folder ? folder : "");
    if (folder && access(deaf, F_OK) == 0) setenv("QTRAJ_LAUNCH", "0 0 127.0.0.1:1", 1);
    begin("load");
}

int MPI_Init_thread(int *argc, char ***argv, int wanted, int *provided)
{
    int (*next)(int *, char ***, int, int *) =
        (int (*)(int *, char ***, int, int *))dlsym(RTLD_NEXT, "MPI_Init_thread");
    begin("init");
    const int code = next(argc, argv, wanted, provided);
    begin("met");
    return code;
}

int MPI_Iallreduce(const void *from, void *to, int n, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                   MPI_Request *request)
{
    int (*next)(const void *, void *, int, MPI_Datatype, MPI_Op, MPI_Comm, MPI_Request *) =
        (int (*)(const void *, void *, int, MPI_Datatype, MPI_Op, MPI_Comm, MPI_Request *))dlsym(
            RTLD_NEXT, "MPI_Iallreduce");
    const char *folder = getenv("FAULTS");
    const int hangs = folder && !is_master() && take(folder, "hang", "start");
    while (hangs) doze();
    return next(from, to, n, type, op, comm, request);
}

/* A result is a JSON object; a visit that has ended, "done". */
int MPI_Send(const void *buffer, int n, MPI_Datatype type, int to, int tag, MPI_Comm comm)
{
    int (*next)(const void *, int, MPI_Datatype, int, int, MPI_Comm) =
        (int (*)(const void *, int, MPI_Datatype, int, int, MPI_Comm))dlsym(RTLD_NEXT, "MPI_Send");
    const char *folder = getenv("FAULTS"), *text = buffer;
    char path[4096];
    if (!folder || is_master() || n < 1) return next(buffer, n, type, to, tag, comm);
    snprintf(path, sizeof path, "%s/late.%s", folder, visited);
    if (*text == '{' && access(path, F_OK) == 0) {
        late = 1;
        note(folder, "late", visited);
        while (access(path, F_OK) == 0) doze();
    }
    const int done = n == 4 && memcmp(text, "done", 4) == 0;
    snprintf(path, sizeof path, "%s/at/%d", folder, (int)getpid());
    if (done) unlink(path);
    const int code = next(buffer, n, type, to, tag, comm);
    if (done) ended = 1;
    return code;
}

_Noreturn void _exit(int code)
{
    void (*next)(int) = (void (*)(int))dlsym(RTLD_NEXT, "_exit");
    while (late && !ended) doze();
    next(code);
    __builtin_unreachable();
}

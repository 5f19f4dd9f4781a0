/* A library for LD_PRELOAD that counts the MPI calls of a rank that take part in a message, and
 * strikes at one of them. In the folder $MESSAGES, WHO being the rank (of $MESSAGES_RANKS), or
 * "new" and the rank for one that replaces a lost rank:
 *
 *   calls.WHO    gets a line for each call, "Send 5090": what it is and the elements that it sends
 *   WHO.N.kill   is removed at call N, and the process is killed before it
 *   WHO.N.stop   likewise, and is stopped
 *   WHO.N.hang   likewise; the calling thread waits for ever, its other threads go on
 *   WHO.N.tear   likewise; if it sends, the message has begun to be sent when the process is killed
 *
 * Calls that only look whether there is a message do not count: how many there are is chance. */
#include <fcntl.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static long calls;

static int take(const char *who, const char *what)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s.%ld.%s", getenv("MESSAGES"), who, calls, what);
    return unlink(path) == 0;
}

static void note(const char *who, const char *what, int n)
{
    char path[4096], text[64];
    const int length = snprintf(text, sizeof text, "%s %d\n", what, n);
    snprintf(path, sizeof path, "%s/calls.%s", getenv("MESSAGES"), who);
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT, 0600);
    if (fd < 0 || write(fd, text, (size_t)length) != length) abort();
    close(fd);
}

static void hang(void)
{
    for (;;) pause();
}

/* Returns whether the message is to be torn. */
static int meet(const char *what, int n)
{
    const char *rank = getenv("OMPI_COMM_WORLD_RANK"), *size = getenv("OMPI_COMM_WORLD_SIZE"),
               *ranks = getenv("MESSAGES_RANKS");
    if (!rank || !size || !ranks) return 0;
    char who[32];
    snprintf(who, sizeof who, "%s%s", strcmp(size, ranks) == 0 ? "" : "new", rank);
    calls++;
    note(who, what, n);
    if (take(who, "kill")) kill(getpid(), SIGKILL);
    if (take(who, "stop")) kill(getpid(), SIGSTOP);
    if (take(who, "hang")) hang();
    return take(who, "tear");
}

#define COUNTED(name, parameters, arguments)                                                       \
    int MPI_##name parameters                                                                      \
    {                                                                                              \
        if (meet(#name, 0)) kill(getpid(), SIGKILL);                                               \
        return PMPI_##name arguments;                                                              \
    }

int MPI_Send(const void *from, int n, MPI_Datatype type, int to, int tag, MPI_Comm comm)
{
    MPI_Request request;
    if (!meet("Send", n)) return PMPI_Send(from, n, type, to, tag, comm);
    PMPI_Isend(from, n, type, to, tag, comm, &request);
    kill(getpid(), SIGKILL);
    return MPI_SUCCESS;
}

int MPI_Isend(const void *from, int n, MPI_Datatype type, int to, int tag, MPI_Comm comm,
              MPI_Request *request)
{
    const int torn = meet("Isend", n), code = PMPI_Isend(from, n, type, to, tag, comm, request);
    if (torn) kill(getpid(), SIGKILL);
    return code;
}

#define BUFFERS const void *from, int n, MPI_Datatype type, void *to

COUNTED(Init_thread, (int *argc, char ***argv, int wanted, int *provided),
        (argc, argv, wanted, provided))
COUNTED(Finalize, (void), ())
COUNTED(Recv,
        (void *to, int n, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Status *status),
        (to, n, type, from, tag, comm, status))
COUNTED(Bcast, (void *to, int n, MPI_Datatype type, int root, MPI_Comm comm),
        (to, n, type, root, comm))
COUNTED(Ibcast, (void *to, int n, MPI_Datatype type, int root, MPI_Comm comm, MPI_Request *request),
        (to, n, type, root, comm, request))
COUNTED(Barrier, (MPI_Comm comm), (comm))
COUNTED(Allreduce, (const void *from, void *to, int n, MPI_Datatype type, MPI_Op op, MPI_Comm comm),
        (from, to, n, type, op, comm))
COUNTED(Iallreduce,
        (const void *from, void *to, int n, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
         MPI_Request *request),
        (from, to, n, type, op, comm, request))
COUNTED(Gather, (BUFFERS, int m, MPI_Datatype as, int root, MPI_Comm comm),
        (from, n, type, to, m, as, root, comm))
COUNTED(Allgather, (BUFFERS, int m, MPI_Datatype as, MPI_Comm comm),
        (from, n, type, to, m, as, comm))
COUNTED(Allgatherv, (BUFFERS, const int m[], const int at[], MPI_Datatype as, MPI_Comm comm),
        (from, n, type, to, m, at, as, comm))
COUNTED(Iallgatherv,
        (BUFFERS, const int m[], const int at[], MPI_Datatype as, MPI_Comm comm,
         MPI_Request *request),
        (from, n, type, to, m, at, as, comm, request))
COUNTED(Comm_split, (MPI_Comm comm, int color, int key, MPI_Comm *out), (comm, color, key, out))
COUNTED(Comm_split_type, (MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm *out),
        (comm, type, key, info, out))
COUNTED(Comm_dup, (MPI_Comm comm, MPI_Comm *out), (comm, out))
COUNTED(Comm_spawn,
        (const char *command, char *argv[], int n, MPI_Info info, int root, MPI_Comm comm,
         MPI_Comm *out, int codes[]),
        (command, argv, n, info, root, comm, out, codes))
COUNTED(Win_allocate_shared,
        (MPI_Aint n, int unit, MPI_Info info, MPI_Comm comm, void *base, MPI_Win *out),
        (n, unit, info, comm, base, out))
COUNTED(Win_free, (MPI_Win * win), (win))

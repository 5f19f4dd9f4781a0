/* The ranks that work: they take pieces from the master, and split when it says so. */
#include "sched/sched_internal.h"
#include "util/mem.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The leader waits for TASK, SPLIT or END. */
static enum status next_task(struct sched_port *port, int *tag, char **task, struct err *e)
{
    MPI_Status probed;
    long pause = 0;
    char ready[48];
    int size;
    *task = NULL;
    MPI_Comm_size(port->group, &size);
    snprintf(ready, sizeof ready, "%d %lld", size, (long long)port->class);
    PASS(sched_post(port->world, 0, TAG_READY, ready, e));
    for (;;) {
        int there = 0;
        MPI_Iprobe(0, MPI_ANY_TAG, port->world, &there, &probed);
        if (!there) {
            patience_pause(&pause);
            continue;
        }
        PASS(sched_receive(port->world, &probed, task, e));
        *tag = probed.MPI_TAG;
        if (*tag == TAG_TASK || *tag == TAG_SPLIT || *tag == TAG_END) return OK;
        free(*task);
        *task = NULL;
        pause = 0; /* a STOP that was sent before the last task had ended */
    }
    return OK;
}

/* Gives the leader's message to all ranks of the group, which wait for it without using a core. */
static enum status share_task(struct sched_port *port, int *tag, char **task, struct err *e)
{
    int rank, size;
    MPI_Comm_rank(port->group, &rank);
    MPI_Comm_size(port->group, &size);
    if (size == 1) return OK;
    int64_t head[2] = {*tag, rank == 0 ? (int64_t)strlen(*task) : 0};
    MPI_Request request;
    MPI_Ibcast(head, 2, MPI_INT64_T, 0, port->group, &request);
    NEED(patience_wait(&request) == MPI_SUCCESS, ERR_MPI, "MPI_Ibcast of a task failed");
    *tag = (int)head[0];
    int64_t n = head[1];
    if (rank != 0) PASS(mem_zero(task, n + 1, 1, "task", e));
    MPI_Bcast(*task, (int)n, MPI_CHAR, 0, port->group);
    return OK;
}

static enum status run_piece(struct sched_port *port, const struct sched_work *work,
                             const char *task, struct err *e)
{
    enum status st = OK;
    struct sched_piece piece;
    int64_t *parts = NULL;
    TRY(sched_piece_read(task, &parts, &piece, e));
    st = work->run(work->context, port->group, &piece, port, e);
done:
    free(parts);
    return st;
}

/* Splits the group; this rank continues in its part. */
static enum status split_group(struct sched_port *port, const char *message, struct err *e)
{
    long long class;
    int rest, rank, size;
    MPI_Comm group;
    NEED(sscanf(message, "%lld %d", &class, &rest) == 2 && class > 0, ERR_MPI,
         "the master's split is malformed: %s", message);
    const struct sched_split split = {class, rest};
    MPI_Comm_rank(port->group, &rank);
    MPI_Comm_size(port->group, &size);
    int color = (int)sched_split_color(&split, size, rank);
    NEED(MPI_Comm_split(port->group, color, rank, &group) == MPI_SUCCESS, ERR_MPI,
         "MPI_Comm_split failed");
    MPI_Comm_free(&port->group);
    port->group = group;
    port->class = class;
    MPI_Comm_size(group, &size);
    if (rest && size < class) port->class = size;
    return OK;
}

/* Has the master end the run with this status. */
static enum status post_broken(struct sched_port *port, enum status why, const char *text,
                               struct err *e)
{
    enum status st = OK;
    char *message = NULL;
    TRY(mem_format(&message, e, "%d %s", (int)why, text));
    TRY(sched_post(port->world, 0, TAG_BROKEN, message, e));
done:
    free(message);
    return st;
}

enum status worker_run(struct sched_port *port, const struct sched_work *work, struct err *e)
{
    enum status st = OK;
    char *task = NULL;
    for (;;) {
        int rank, tag = TAG_END;
        MPI_Comm_rank(port->group, &rank);
        if (rank == 0) TRY(next_task(port, &tag, &task, e));
        TRY(share_task(port, &tag, &task, e));
        if (tag == TAG_END) break;
        if (tag == TAG_SPLIT) {
            TRY(split_group(port, task, e));
            free(task);
            task = NULL;
            continue;
        }
        struct err own = {0};
        port->stop = false;
        if (rank == 0) TRY(sched_post(port->world, 0, TAG_BEGUN, "", e));
        enum status result = run_piece(port, work, task, &own);
        free(task);
        task = NULL;
        if (rank != 0) continue;
        if (result == OK || result == ERR_STOPPED)
            TRY(sched_post(port->world, 0, TAG_DONE, result == OK ? "done" : "stopped", e));
        else
            TRY(post_broken(port, result, own.text, e));
    }
done:
    free(task);
    return st;
}

#include "sched/internal.h"
#include "util/mem.h"
#include <stdlib.h>
#include <string.h>

/* The leader waits for a TASK or the END; *task = NULL at the END. */
static enum status next_task(struct sched_port *port, char **task, struct err *e)
{
    enum status st = OK;
    MPI_Status probed;
    long pause = 0;
    *task = NULL;
    TRY(sched_post(port->world, 0, TAG_READY, "", e));
    for (;;) {
        int there = 0;
        MPI_Iprobe(0, MPI_ANY_TAG, port->world, &there, &probed);
        if (!there) {
            patient_pause(&pause);
            continue;
        }
        TRY(sched_receive(port->world, &probed, task, e));
        if (probed.MPI_TAG == TAG_TASK) goto done;
        free(*task);
        *task = NULL;
        if (probed.MPI_TAG == TAG_END) goto done;
        pause = 0; /* a STOP that crossed the end of the last task */
    }
done:
    return st;
}

/* The leader's task reaches the group; ranks other than the leader wait without burning a core. */
static enum status share_task(struct sched_port *port, char **task, struct err *e)
{
    enum status st = OK;
    int rank, size;
    MPI_Comm_rank(port->group, &rank);
    MPI_Comm_size(port->group, &size);
    if (size == 1) return OK;
    int64_t n = rank == 0 && *task ? (int64_t)strlen(*task) : -1;
    MPI_Request request;
    MPI_Ibcast(&n, 1, MPI_INT64_T, 0, port->group, &request);
    ENSURE(patient_wait(&request) == MPI_SUCCESS, ERR_MPI, "MPI_Ibcast of a task failed");
    if (n < 0) return OK;
    if (rank != 0) TRY(mem_zero(task, n + 1, 1, "task", e));
    MPI_Bcast(*task, (int)n, MPI_CHAR, 0, port->group);
done:
    return st;
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

enum status worker_run(struct sched_port *port, const struct sched_work *work, struct err *e)
{
    enum status st = OK;
    char *task = NULL;
    int rank;
    MPI_Comm_rank(port->group, &rank);
    for (;;) {
        if (rank == 0) TRY(next_task(port, &task, e));
        TRY(share_task(port, &task, e));
        if (!task) break;
        struct err own = {0};
        port->stop = false;
        enum status result = run_piece(port, work, task, &own);
        free(task);
        task = NULL;
        if (rank != 0) continue;
        if (result == OK || result == ERR_STOPPED)
            TRY(sched_post(port->world, 0, TAG_DONE, result == OK ? "done" : "stopped", e));
        else
            TRY(sched_post(port->world, 0, TAG_BROKEN, own.text, e));
    }
done:
    free(task);
    return st;
}

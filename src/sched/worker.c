/* The ranks that work: they take batches from the master, and split when it says so. */
#include "sched/sched_internal.h"
#include "util/comm.h"
#include "util/mem.h"
#include <stdio.h>

/* The leader waits for JOB, SPLIT or END. */
static enum status next_job(struct sched_port *port, int *tag, char **job, struct err *e)
{
    MPI_Status probed;
    long pause = 0;
    char ready[48];
    *job = NULL;
    snprintf(ready, sizeof ready, "%d %lld", comm_size(port->group), (long long)port->class);
    PASS(sched_post(port->world, 0, TAG_READY, ready, e));
    for (;;) {
        int there = 0;
        MPI_Iprobe(0, MPI_ANY_TAG, port->world, &there, &probed);
        if (!there) {
            patience_pause(&pause);
            continue;
        }
        PASS(sched_receive(port->world, &probed, job, e));
        *tag = probed.MPI_TAG;
        if (*tag == TAG_JOB || *tag == TAG_SPLIT || *tag == TAG_END) return OK;
        mem_drop(job);
        pause = 0; /* a STOP that was sent before the last job had ended */
    }
    return OK;
}

/* Gives the leader's message to all ranks of the group, which wait for it without using a core. */
static enum status share_job(struct sched_port *port, int *tag, char **job, struct err *e)
{
    const int rank = comm_rank(port->group);
    if (comm_size(port->group) == 1) return OK;
    int64_t head[2] = {*tag, rank == 0 ? (int64_t)strlen(*job) : 0};
    MPI_Request request;
    MPI_Ibcast(head, 2, MPI_INT64_T, 0, port->group, &request);
    NEED(patience_wait(&request) == MPI_SUCCESS, ERR_MPI, "MPI_Ibcast of a job failed");
    *tag = (int)head[0];
    int64_t n = head[1];
    if (rank != 0) PASS(mem_zero(job, n + 1, 1, "job", e));
    MPI_Bcast(*job, (int)n, MPI_CHAR, 0, port->group);
    return OK;
}

static enum status run_batch(struct sched_port *port, const struct sched_work *work,
                             const char *job, struct err *e)
{
    struct sched_batch batch;
    AUTO_FREE int64_t *parts = NULL;
    PASS(sched_batch_read(job, &parts, &batch, e));
    return work->run(work->context, port->group, &batch, port, e);
}

/* Splits the group; this rank continues in its part. */
static enum status split_group(struct sched_port *port, const char *message, struct err *e)
{
    long long class;
    int rest;
    MPI_Comm group;
    NEED(sscanf(message, "%lld %d", &class, &rest) == 2 && class > 0, ERR_MPI,
         "the master's split is malformed: %s", message);
    const struct sched_split split = {class, rest};
    const int rank = comm_rank(port->group);
    const int color = (int)sched_split_color(&split, comm_size(port->group), rank);
    NEED(MPI_Comm_split(port->group, color, rank, &group) == MPI_SUCCESS, ERR_MPI,
         "MPI_Comm_split failed");
    MPI_Comm_free(&port->group);
    port->group = group;
    port->class = class;
    if (rest && comm_size(group) < class) port->class = comm_size(group);
    return OK;
}

enum status worker_run(struct sched_port *port, const struct sched_work *work, struct err *e)
{
    AUTO_FREE char *job = NULL;
    for (;;) {
        const int rank = comm_rank(port->group);
        int tag = TAG_END;
        if (rank == 0) PASS(next_job(port, &tag, &job, e));
        PASS(share_job(port, &tag, &job, e));
        if (tag == TAG_END) break;
        if (tag == TAG_SPLIT) {
            PASS(split_group(port, job, e));
            mem_drop(&job);
            continue;
        }
        struct err own = {0};
        port->stop = false;
        if (rank == 0) PASS(sched_post(port->world, 0, TAG_BEGUN, "", e));
        enum status result = run_batch(port, work, job, &own);
        mem_drop(&job);
        if (rank != 0) continue;
        if (result == OK || result == ERR_STOPPED)
            PASS(sched_post(port->world, 0, TAG_DONE, result == OK ? "done" : "stopped", e));
        else {
            /* Has the master end the run with this status. */
            AUTO_FREE char *message = NULL;
            PASS(mem_format(&message, e, "%d %s", (int)result, own.text));
            PASS(sched_post(port->world, 0, TAG_BROKEN, message, e));
        }
    }
    return OK;
}

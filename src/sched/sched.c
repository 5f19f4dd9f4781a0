#include "sched/link.h"
#include "sched/sched_internal.h"
#include "util/agree.h"
#include "util/comm.h"
#include "util/mem.h"
#include <stdio.h>

int64_t sched_split_count(const struct sched_split *s, int64_t ranks)
{
    int64_t whole = ranks / s->class;
    if (whole == 0) return 1;
    return whole + (s->rest && ranks % s->class > 0);
}

int64_t sched_split_color(const struct sched_split *s, int64_t ranks, int64_t rank)
{
    int64_t groups = sched_split_count(s, ranks);
    if (s->rest) return rank / s->class;
    return ((rank + 1) * groups - 1) / ranks;
}

/* --- the ranks that work: they take batches from the master, and split when it says so --- */

/* Receives the probed chunk and those that follow, as a NUL-terminated text; the caller frees.
 * Waits for the sender. */
static enum status receive(MPI_Comm comm, const MPI_Status *probed, char **text, struct err *e)
{
    struct sched_arrival a = {0};
    enum status st = OK;
    for (bool whole = false; !whole && st == OK;) st = sched_chunk(comm, probed, &a, &whole, e);
    if (st == OK)
        *text = a.text;
    else
        free(a.text);
    return st;
}

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
        PASS(receive(port->world, &probed, job, e));
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

/* Parses a message of master.c, write_batch. The caller frees *parts; *out borrows it. */
static enum status read_batch(const char *message, int64_t **parts, struct sched_batch *out,
                              struct err *e)
{
    const char *end = strchr(message, '\n'), *p = message;
    int64_t n = 0, capacity = 0;
    NEED(end, ERR_MPI, "a job without a line of parts");
    while (*message != '-' && p < end) {
        char *next;
        PASS(mem_grow(parts, n, &capacity, sizeof **parts, e));
        (*parts)[n++] = strtoll(p, &next, 10);
        NEED(next != p && (*next == ',' || next == end), ERR_MPI, "a job's parts: %.*s",
             (int)(end - message), message);
        p = next + 1;
    }
    *out = (struct sched_batch){.text = end + 1, .job = -1, .n_parts = n, .parts = *parts};
    return OK;
}

static enum status run_batch(struct sched_port *port, const struct sched_work *work,
                             const char *job, struct err *e)
{
    struct sched_batch batch;
    AUTO_FREE int64_t *parts = NULL;
    PASS(read_batch(job, &parts, &batch, e));
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

static enum status worker_run(struct sched_port *port, const struct sched_work *work, struct err *e)
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

/* --- a rank begins --- */

enum status sched_run(MPI_Comm world, struct sched_job *jobs, int64_t n,
                      const struct sched_work *work, const struct sched_sink *sink,
                      const struct sched_rescue *rescue, struct sched_outcome *outcome,
                      struct err *e)
{
    struct sched_port port = {.world = world, .group = MPI_COMM_NULL};
    AUTO_FREE int *nodes = NULL;
    const int rank = comm_rank(world), size = comm_size(world);
    *outcome = (struct sched_outcome){.end = SCHED_DONE};
    if (size == 1) return single_process_run(world, jobs, n, work, sink, rescue, outcome, e);
    PASS(err_agree(world, mem_zero(&nodes, size, sizeof *nodes, "ranks", e), e));
    /* The node of every rank, named by its lowest one. */
    CLEANUP(comm_free) MPI_Comm mates = MPI_COMM_NULL;
    PASS(comm_of_node(world, &mates, e));
    int node = rank;
    MPI_Bcast(&node, 1, MPI_INT, 0, mates);
    MPI_Allgather(&node, 1, MPI_INT, nodes, 1, MPI_INT, world);
    comm_free(&mates);
    /* One group of all ranks but the master, which gets MPI_COMM_NULL. */
    NEED(MPI_Comm_split(world, rank == 0 ? MPI_UNDEFINED : 0, rank, &port.group) == MPI_SUCCESS,
         ERR_MPI, "MPI_Comm_split failed");
    if (rank == 0) return master_run(world, nodes, jobs, n, sink, rescue, outcome, e);
    const enum status st = worker_run(&port, work, e);
    comm_free(&port.group);
    return st;
}

bool sched_replaces(MPI_Comm *master)
{
    MPI_Comm_get_parent(master);
    return *master != MPI_COMM_NULL;
}

/* "ID\nADDRESS\nTERMS". */
static enum status take_terms(MPI_Comm master, struct link **link, char **terms, struct err *e)
{
    MPI_Status probed;
    AUTO_FREE char *text = NULL;
    char *address, *rest = NULL;
    long pause = 0;
    for (int there = 0; !there; patience_pause(&pause))
        MPI_Iprobe(0, TAG_TERMS, master, &there, &probed);
    PASS(receive(master, &probed, &text, e));
    address = strchr(text, '\n');
    if (address) rest = strchr(address + 1, '\n');
    NEED(rest, ERR_MPI, "malformed terms: %s", text);
    *rest = '\0';
    NEED(*link = link_join(address + 1, atoll(text)), ERR_MPI,
         "this process cannot connect to rank 0 over TCP");
    return mem_string(terms, rest + 1, e);
}

enum status sched_replace(MPI_Comm world, MPI_Comm master, const struct sched_work *work,
                          enum status (*take)(void *context, const char *terms, struct err *e),
                          void *context, struct err *e)
{
    enum status st = OK;
    struct sched_port port = {.world = master};
    struct link *link = NULL;
    char *terms = NULL;
    st = take_terms(master, &link, &terms, e);
    if (st == OK) st = take(context, terms, e);
    TRY(err_agree(world, st, e));
    ENSURE(MPI_Comm_dup(world, &port.group) == MPI_SUCCESS, ERR_MPI, "MPI_Comm_dup failed");
    TRY(worker_run(&port, work, e));
done:
    link_bye(link);
    free(terms);
    return st;
}

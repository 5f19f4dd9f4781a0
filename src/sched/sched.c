#include "sched/link.h"
#include "sched/sched_internal.h"
#include "util/agree.h"
#include "util/comm.h"
#include "util/mem.h"

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
    PASS(sched_receive(master, &probed, &text, e));
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

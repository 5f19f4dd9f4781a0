#include "sched/internal.h"
#include "util/agree.h"
#include "util/mem.h"
#include <stdlib.h>

static void groups_free(struct sched_groups *g)
{
    free(g->leader);
    free(g->node);
}

/* Every rank's node, known by its lowest rank. Collective on world. */
static enum status find_nodes(MPI_Comm world, int *nodes, struct err *e)
{
    enum status st = OK;
    MPI_Comm mates = MPI_COMM_NULL;
    int rank;
    MPI_Comm_rank(world, &rank);
    ENSURE(MPI_Comm_split_type(world, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &mates) ==
               MPI_SUCCESS,
           ERR_MPI, "MPI_Comm_split_type failed");
    int node = rank;
    MPI_Bcast(&node, 1, MPI_INT, 0, mates);
    MPI_Allgather(&node, 1, MPI_INT, nodes, 1, MPI_INT, world);
done:
    if (mates != MPI_COMM_NULL) MPI_Comm_free(&mates);
    return st;
}

/* Splits the ranks behind the master into groups. *group is MPI_COMM_NULL on the master. Collective
 * on world. */
static enum status split(MPI_Comm world, int64_t ranks_per_group, MPI_Comm *group,
                         struct sched_groups *groups, struct err *e)
{
    enum status st = OK;
    int rank, size, *nodes = NULL;
    MPI_Comm_rank(world, &rank);
    MPI_Comm_size(world, &size);
    groups->n = ranks_per_group < 1 ? 0 : (size - 1 + ranks_per_group - 1) / ranks_per_group;
    if (groups->n == 0)
        st = err_set(e, ERR_USAGE, __FILE__, __LINE__,
                     "run.ranks_per_group: %lld, expected at least 1", (long long)ranks_per_group);
    if (st == OK) st = mem_zero(&nodes, size, sizeof *nodes, "ranks", e);
    if (st == OK) st = mem_zero(&groups->leader, groups->n, sizeof *groups->leader, "groups", e);
    if (st == OK) st = mem_zero(&groups->node, groups->n, sizeof *groups->node, "groups", e);
    TRY(err_agree(world, st, e));
    TRY(find_nodes(world, nodes, e));
    for (int64_t i = 0; i < groups->n; i++) {
        groups->leader[i] = (int)(1 + i * ranks_per_group);
        groups->node[i] = nodes[groups->leader[i]];
    }
    int color = rank == 0 ? MPI_UNDEFINED : (int)((rank - 1) / ranks_per_group);
    ENSURE(MPI_Comm_split(world, color, rank, group) == MPI_SUCCESS, ERR_MPI,
           "MPI_Comm_split failed");
done:
    free(nodes);
    return st;
}

enum status sched_run(MPI_Comm world, int64_t ranks_per_group, struct sched_task *tasks, int64_t n,
                      const struct sched_work *work, const struct sched_sink *sink,
                      struct sched_outcome *outcome, struct err *e)
{
    enum status st = OK;
    MPI_Comm group = MPI_COMM_NULL;
    struct sched_groups groups = {0};
    int rank, size;
    MPI_Comm_rank(world, &rank);
    MPI_Comm_size(world, &size);
    *outcome = (struct sched_outcome){.end = SCHED_DONE};
    if (size == 1) return alone_run(world, tasks, n, work, sink, outcome, e);
    TRY(split(world, ranks_per_group, &group, &groups, e));
    if (rank == 0) {
        st = master_run(world, &groups, tasks, n, sink, outcome, e);
    } else {
        struct sched_port port = {.world = world, .group = group};
        st = worker_run(&port, work, e);
    }
    TRY(err_agree(world, st, e));
    int64_t packed[3] = {outcome->end, outcome->finished, outcome->pieces};
    MPI_Bcast(packed, 3, MPI_INT64_T, 0, world);
    *outcome = (struct sched_outcome){
        .end = (enum sched_end)packed[0], .finished = packed[1], .pieces = packed[2]};
done:
    if (group != MPI_COMM_NULL) MPI_Comm_free(&group);
    groups_free(&groups);
    return st;
}

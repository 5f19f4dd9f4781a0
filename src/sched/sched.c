#include "sched/internal.h"
#include "util/agree.h"

/* Splits the ranks behind the master into groups. *group is MPI_COMM_NULL on the master. Collective
 * on world. */
static enum status split(MPI_Comm world, int64_t ranks_per_group, MPI_Comm *group, int *n_groups,
                         struct err *e)
{
    enum status st = OK;
    int rank, size;
    MPI_Comm_rank(world, &rank);
    MPI_Comm_size(world, &size);
    ENSURE(ranks_per_group >= 1, ERR_USAGE, "run.ranks_per_group: %lld, expected at least 1",
           (long long)ranks_per_group);
    int color = rank == 0 ? MPI_UNDEFINED : (int)((rank - 1) / ranks_per_group);
    ENSURE(MPI_Comm_split(world, color, rank, group) == MPI_SUCCESS, ERR_MPI,
           "MPI_Comm_split failed");
    *n_groups = (int)((size - 1 + ranks_per_group - 1) / ranks_per_group);
done:
    return st;
}

enum status sched_run(MPI_Comm world, int64_t ranks_per_group, struct sched_task *tasks, int64_t n,
                      const struct sched_work *work, const struct sched_sink *sink,
                      struct sched_outcome *outcome, struct err *e)
{
    enum status st = OK;
    MPI_Comm group = MPI_COMM_NULL;
    int rank, size, n_groups = 0;
    MPI_Comm_rank(world, &rank);
    MPI_Comm_size(world, &size);
    *outcome = (struct sched_outcome){.end = SCHED_DONE};
    if (size == 1) return alone_run(world, tasks, n, work, sink, outcome, e);
    TRY(split(world, ranks_per_group, &group, &n_groups, e));
    if (rank == 0) {
        st = master_run(world, n_groups, tasks, n, sink, outcome, e);
    } else {
        struct sched_port port = {.world = world, .group = group};
        st = worker_run(&port, work, e);
    }
    TRY(err_agree(world, st, e));
    int64_t packed[2] = {outcome->end, outcome->finished};
    MPI_Bcast(packed, 2, MPI_INT64_T, 0, world);
    *outcome = (struct sched_outcome){.end = (enum sched_end)packed[0], .finished = packed[1]};
done:
    if (group != MPI_COMM_NULL) MPI_Comm_free(&group);
    return st;
}

#include "cli/doctor.h"
#include "util/agree.h"
#include <omp.h>
#include <stdlib.h>

/* What one rank tells rank 0. */
struct card {
    double sgemm, dgemm, cores_a_thread;
    int64_t threads, bound, node_leader;
};

/* CPUs of the node that some of its ranks may run on. Collective on the node's ranks. */
static int64_t count_cpus(MPI_Comm node, const struct limits *l)
{
    struct cpu_set all;
    MPI_Allreduce(l->cpus.bits, all.bits, LIMITS_CPUS / LIMITS_WORD, MPI_UINT64_T, MPI_BOR, node);
    return cpu_set_count(&all);
}

static enum status look(MPI_Comm world, struct doctor_ranks *out, struct card *mine, struct err *e)
{
    enum status st = OK;
    MPI_Comm node = MPI_COMM_NULL;
    int rank;
    st = limits_read("", &out->limits, e);
    TRY(err_agree(world, st, e));
    TRY(limits_share(world, &out->limits, true, &out->share, e));
    ENSURE(MPI_Comm_split_type(world, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node) == MPI_SUCCESS,
           ERR_MPI, "MPI_Comm_split_type failed");
    MPI_Comm_rank(node, &rank);
    out->cores_used = count_cpus(node, &out->limits);
    st = linalg_rates_measure(0.2, &out->rates, e); /* all ranks at once, as in a run */
    TRY(err_agree(world, st, e));
    int threads = omp_get_max_threads();
    *mine = (struct card){.sgemm = out->rates.sgemm,
                          .dgemm = out->rates.dgemm,
                          .cores_a_thread = (double)out->share.cores / threads,
                          .threads = threads,
                          .bound = out->share.bound,
                          .node_leader = rank == 0};
done:
    if (node != MPI_COMM_NULL) MPI_Comm_free(&node);
    return st;
}

enum status doctor_ask_ranks(MPI_Comm world, struct doctor_ranks *out, struct err *e)
{
    enum status st = OK;
    struct card mine = {0};
    double sums[2], least;
    int64_t nodes, bounds[3], low[3];
    MPI_Comm_size(world, &out->n);
    TRY(look(world, out, &mine, e));
    const double rates[2] = {mine.sgemm, mine.dgemm};
    MPI_Allreduce(rates, sums, 2, MPI_DOUBLE, MPI_SUM, world);
    MPI_Allreduce(&mine.cores_a_thread, &least, 1, MPI_DOUBLE, MPI_MIN, world);
    MPI_Allreduce(&mine.node_leader, &nodes, 1, MPI_INT64_T, MPI_SUM, world);
    bounds[0] = mine.threads;
    bounds[1] = -mine.threads;
    bounds[2] = mine.bound;
    MPI_Allreduce(bounds, low, 3, MPI_INT64_T, MPI_MIN, world);
    out->rates = (struct linalg_rates){.sgemm = sums[0], .dgemm = sums[1]};
    out->cores_least = least;
    out->nodes = nodes;
    out->threads_least = (int)low[0];
    out->threads_most = (int)-low[1];
    out->all_bound = low[2] != 0;
done:
    return st;
}

void doctor_check_ranks(struct doctor *d, const struct doctor_ranks *r)
{
    const char *given = getenv("OMP_NUM_THREADS");
    d->heading = "ranks";
    doctor_note(d, "ranks", json_integer(r->n));
    doctor_note(d, "nodes", json_integer((json_int_t)r->nodes));
    doctor_note(d, "ranks_on_this_node", json_integer((json_int_t)r->share.ranks));
    doctor_note(d, "threads_a_rank", json_integer(r->threads_most));
    doctor_note(d, "threads_from", json_string(given ? "OMP_NUM_THREADS" : "the rank's cores"));
    doctor_note(d, "cores_of_this_node", json_integer((json_int_t)r->limits.cores));
    doctor_note(d, "cores_from", json_string(r->limits.cores_from));
    doctor_note(d, "cores_that_ranks_may_use", json_integer((json_int_t)r->cores_used));
    doctor_note(d, "bound", json_boolean(r->all_bound));
    if (r->cores_least < 0.999)
        doctor_warn(d, "leave OMP_NUM_THREADS unset, or start fewer ranks a node",
                    "a rank has %d threads on %.3g cores: threads wait for each other",
                    r->threads_most, r->cores_least * r->threads_most);
    if (r->share.ranks > 1 && !r->all_bound)
        doctor_warn(d, "mpirun --map-by slot:PE=THREADS --bind-to core, or srun --cpu-bind=cores",
                    "ranks of a node are not bound to cores of their own: threads wander");
    if (r->cores_used < r->limits.cores)
        doctor_warn(d, "mpirun --bind-to none, or --map-by slot:PE=CORES; srun --cpus-per-task",
                    "ranks are bound to %lld of the %lld cores: the others stay idle",
                    (long long)r->cores_used, (long long)r->limits.cores);
}

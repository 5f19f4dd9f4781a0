/* Checks of all ranks together: cores, threads, binding, memory, speed. */
#include "math/products.h"
#include "run/doctor.h"
#include "util/agree.h"
#include "util/comm.h"
#include <omp.h>
#include <stdlib.h>
#include <unistd.h>

/* Information of one rank; numbers about work are 0 on a rank that only waits. */
struct card {
    bool works, node_leader;
    struct linalg_rates rates;
    int64_t threads, started; /* asked for, and how many OpenMP gives */
    int64_t node_workers, node_threads;
    double load; /* threads that a core of this rank, or of its node, has */
};

static int64_t reduce(MPI_Comm comm, int64_t x, MPI_Op op)
{
    int64_t all;
    MPI_Allreduce(&x, &all, 1, MPI_INT64_T, op, comm);
    return all;
}

static double sum_of(MPI_Comm comm, double x)
{
    double sum;
    MPI_Allreduce(&x, &sum, 1, MPI_DOUBLE, MPI_SUM, comm);
    return sum;
}

static int64_t threads_started(void)
{
    int64_t n = 1;
#pragma omp parallel
#pragma omp single
    n = omp_get_num_threads();
    return n;
}

/* Threads per core: of the node's workers, or of the rank, whichever is larger. */
static double load_of(const struct card *c, const struct doctor_ranks *r)
{
    if (!c->works) return 0;
    int64_t cores = r->cores_used < r->limits.cores ? r->cores_used : r->limits.cores;
    double node = (double)c->node_threads / (double)(cores > 0 ? cores : 1);
    double own = (double)c->threads / (double)r->share.cores;
    return node > own ? node : own;
}

static enum status look(MPI_Comm world, struct doctor_ranks *out, struct card *mine, struct err *e)
{
    enum status st = OK;
    CLEANUP(comm_free) MPI_Comm node = MPI_COMM_NULL;
    PASS(err_agree(world, limits_read("", &out->limits, e), e));
    PASS(limits_share(world, &out->limits, mine->works, &out->share, e));
    PASS(comm_of_node(world, &node, e));
    mine->node_leader = comm_rank(node) == 0;
    /* The node's CPUs that some worker may run on. */
    static const struct cpu_set none;
    struct cpu_set all;
    MPI_Allreduce(mine->works ? out->limits.cpus.bits : none.bits, all.bits,
                  LIMITS_CPUS / LIMITS_WORD, MPI_UINT64_T, MPI_BOR, node);
    out->cores_used = cpu_set_count(&all);
    mine->threads = mine->works ? omp_get_max_threads() : 0;
    mine->started = mine->works ? threads_started() : 0;
    mine->node_workers = out->share.workers;
    mine->node_threads = reduce(node, mine->threads, MPI_SUM);
    mine->load = load_of(mine, out);
    if (mine->works) /* all at once, as in a run */
        st = linalg_rates_measure(0.2, &mine->rates, e);
    return err_agree(world, st, e);
}

enum status doctor_ask_ranks(MPI_Comm world, struct doctor_ranks *out, struct err *e)
{
    struct card mine = {0};
    out->n = comm_size(world);
    mine.works = out->n == 1 || comm_rank(world) > 0;
    PASS(look(world, out, &mine, e));
    out->rates = (struct linalg_rates){.sgemm = sum_of(world, mine.rates.sgemm),
                                       .dgemm = sum_of(world, mine.rates.dgemm),
                                       .bf16 = sum_of(world, mine.rates.bf16)};
    MPI_Allreduce(&mine.load, &out->load, 1, MPI_DOUBLE, MPI_MAX, world);
    out->bf16_workers = reduce(world, mine.works && products_native(), MPI_SUM);
    out->auto_workers =
        reduce(world, mine.works && products_resolve(PRODUCTS_AUTO) != PRODUCTS_F32, MPI_SUM);
    out->nodes = reduce(world, mine.node_leader, MPI_SUM);
    out->workers = reduce(world, mine.works, MPI_SUM);
    out->node_workers = reduce(world, mine.node_workers, MPI_MAX);
    out->threads_most = reduce(world, mine.threads, MPI_MAX);
    out->threads_missing = reduce(world, mine.threads - mine.started, MPI_MAX);
    out->all_bound = reduce(world, mine.works && !out->share.bound, MPI_MAX) == 0;
    out->memory_least = -reduce(world, mine.works ? -out->share.memory : -INT64_MAX, MPI_MAX);
    return OK;
}

/* Whether other processes use this machine. */
static void check_others(struct doctor *d)
{
    const long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    double running;
    if (getloadavg(&running, 1) != 1) return;
    doctor_note(d, "load_average", json_real(running));
    if (running > (double)cpus)
        doctor_warn(d, "wait for others' jobs, or start fewer ranks and threads",
                    "the machine's load average is %.3g on %ld CPUs: other processes use the cores",
                    running, cpus);
}

void doctor_check_ranks(struct doctor *d, const struct doctor_ranks *r)
{
    const char *given = getenv("OMP_NUM_THREADS");
    d->heading = "ranks";
    doctor_note(d, "ranks", json_integer(r->n));
    doctor_note(d, "workers", json_integer((json_int_t)r->workers));
    doctor_note(d, "nodes", json_integer((json_int_t)r->nodes));
    doctor_note(d, "ranks_on_this_node", json_integer((json_int_t)r->share.ranks));
    doctor_note(d, "threads_a_rank", json_integer((json_int_t)r->threads_most));
    doctor_note(d, "threads_from", json_string(given ? "OMP_NUM_THREADS" : "the rank's cores"));
    doctor_note(d, "cores_of_this_node", json_integer((json_int_t)r->limits.cores));
    doctor_note(d, "cores_from", json_string(r->limits.cores_from));
    doctor_note(d, "cores_that_ranks_may_use", json_integer((json_int_t)r->cores_used));
    doctor_note(d, "bound", json_boolean(r->all_bound));
    doctor_note(d, "seconds_to_meet", json_real(r->met));
    doctor_note(d, "seconds_to_meet_most", json_real(r->limit));
    check_others(d);
    if (r->met > r->limit / 2)
        doctor_warn(d, "qtraj launch --meet SECONDS, or QTRAJ_MEET=SECONDS",
                    "the ranks took %.0f s to connect; a run ends after %.0f s", r->met, r->limit);
    if (r->load > 1.001)
        doctor_warn(
            d, "leave OMP_NUM_THREADS unset, or start fewer ranks a node",
            "%.3g threads for each core, up to %lld threads a rank: they wait for each other",
            r->load, (long long)r->threads_most);
    else if (r->node_workers > 1 && !r->all_bound &&
             access("/sys/devices/system/node/node1", F_OK) == 0) /* memory is near some cores */
        doctor_warn(d,
                    "mpirun --map-by slot:OVERSUBSCRIBE,PE=THREADS --bind-to core:overload-allowed "
                    "(the master needs no core), or srun --cpu-bind=cores",
                    "ranks of a node are not bound to cores of their own, and this node has "
                    "several sockets: threads "
                    "wander away from their memory");
    if (r->threads_missing > 0)
        doctor_warn(d, "unset OMP_THREAD_LIMIT and OMP_DYNAMIC",
                    "OpenMP starts %lld of a rank's %lld threads",
                    (long long)(r->threads_most - r->threads_missing), (long long)r->threads_most);
    if (r->share.workers > 0 && r->cores_used < r->limits.cores)
        doctor_warn(d, "mpirun --bind-to none, or --map-by slot:PE=CORES; srun --cpus-per-task",
                    "ranks are bound to %lld of the %lld cores: the others stay idle",
                    (long long)r->cores_used, (long long)r->limits.cores);
}

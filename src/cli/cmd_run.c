/* qtraj run: computes the cells of a sweep. Rank 0 is the master (run_master.h); the other ranks,
 * or a single rank, run the visits. */
#include "cli/cli.h"
#include "cli/run_arguments.h"
#include "engine/visit.h"
#include "math/rates.h"
#include "memory/states.h"
#include "records/saved.h"
#include "run/run_master.h"
#include "run/run_stage.h"
#include "run/run_until.h"
#include "run/startup.h"
#include "util/agree.h"
#include "util/comm.h"
#include "util/log.h"
#include "util/mem.h"
#include "util/patience.h"
#include <omp.h>

struct worker {
    struct run_master
        *master; /* a single rank's master, which gets records without JSON text; else NULL */
    struct visit_cache cache;
    struct sched_port *port;
    double planned[MEASURES_N]; /* seconds of the running visit */
    int64_t saved;              /* saved_count that the master knows of */
    double waited; /* for its checkpoints, which no other visit will wait for as long */
};

static enum status send_record(void *context, const json_t *record, struct err *e)
{
    struct worker *w = context;
    if (w->master) return run_master_take(w->master, record, e);
    AUTO_FREE char *text = json_dump_whole(record, JSON_COMPACT);
    NEED(text, ERR_NOMEM, "out of memory for a record");
    return sched_send(w->port, text, e);
}

static bool should_stop(void *context)
{
    return sched_should_stop(((struct worker *)context)->port);
}

static void send_progress(void *context, const char *what, double left, double once, bool last)
{
    struct worker *w = context;
    if (w->saved != saved_count()) sched_keep(w->port);
    w->saved = saved_count();
    sched_report(w->port, what, left, once + w->waited, last);
}

/* planned = what the batches of a visit take: rows of `seconds` (plan_visit), those of all batches
 * if none are named. */
static void add_up(const json_t *seconds, const struct sched_batch *batch, double *planned)
{
    const int64_t rows = (int64_t)json_array_size(seconds) / MEASURES_N;
    for (int64_t i = 0; i < rows; i++) {
        bool wanted = i == 0 || batch->n_parts == 0;
        for (int64_t k = 0; k < batch->n_parts; k++) wanted = wanted || batch->parts[k] == i - 1;
        for (int k = 0; wanted && k < MEASURES_N; k++)
            planned[k] += json_number_get(json_array_get(seconds, (size_t)(i * MEASURES_N + k)));
    }
}

static enum status run_visit(void *context, MPI_Comm group, const struct sched_batch *batch,
                             struct sched_port *port, struct err *e)
{
    enum status st = OK;
    struct worker *w = context;
    struct visit visit = {0};
    json_t *json = NULL;
    char refusal[512] = "";
    double left = 0;
    struct visit_hooks hooks = {.context = w,
                                .memory = cli_memory(),
                                .ranks = cli_share()->workers,
                                .emit = send_record,
                                .should_stop = should_stop,
                                .progress = send_progress,
                                .planned = w->planned};
    w->port = port;
    if (w->master)
        json = plan_visit_json(&w->master->visits.visits[batch->job]);
    else
        TRY(json_read_text("job", batch->text, strlen(batch->text), &json, e));
    ENSURE(json, ERR_NOMEM, "out of memory for a visit");
    TRY(visit_from_json(json, &visit, e));
    if (visit.run.threads > 0) omp_set_num_threads((int)visit.run.threads);
    memset(w->planned, 0, sizeof w->planned);
    add_up(json_object_get(json, "seconds"), batch, w->planned);
    if (batch->n_parts) visit_keep_batches(&visit, batch->parts, batch->n_parts);
    log_trace("sched", "visits %s %s with %lld variants", visit.model, visit.checkpoint,
              (long long)visit.n_variants);
    for (int i = 0; i < MEASURES_N; i++) left += w->planned[i];
    TRY(run_stage_await(json_object_get(json, "stage"), group, port, left, &w->waited, refusal, e));
    hooks.refusal = refusal[0] ? refusal : NULL;
    if (w->master) w->master->visiting = true;
    TRY(visit_run(&visit, group, &w->cache, &hooks, e));
done:
    if (w->master) w->master->visiting = false;
    json_decref(json);
    visit_free(&visit);
    return st;
}

/* The minimum over all workers. Collective on world. */
static struct plan_rank find_workers(MPI_Comm world)
{
    const struct limits_share *s = cli_share();
    const int rank = comm_rank(world), size = comm_size(world);
    bool works = size == 1 || rank > 0;
    int64_t own[4] = {INT64_MAX, INT64_MAX, INT64_MAX, 0}, least[4];
    if (works) {
        own[0] = cli_memory();
        own[1] = s->workers;
        own[2] = s->cores;
        own[3] = -memory_base_now(NULL, s->cores); /* its maximum */
    }
    MPI_Allreduce(own, least, 4, MPI_INT64_T, MPI_MIN, world);
    return (struct plan_rank){.memory = least[0],
                              .base = -least[3],
                              .mates = least[1] > 0 ? least[1] : 1,
                              .threads = least[2] > 0 ? least[2] : 1,
                              .ranks = size > 1 ? size - 1 : 1};
}

/* The mean rates of those that work, measured at the same time on all of them. Collective on world.
 */
static enum status find_rates(MPI_Comm world, struct cost_rates *out, struct err *e)
{
    const double seconds = 0.03;
    const int rank = comm_rank(world), size = comm_size(world);
    enum status st = OK;
    struct linalg_rates own = {0};
    if (size == 1 || rank > 0) st = linalg_rates_measure(seconds, &own, e);
    PASS(err_agree(world, st, e));
    double sums[3] = {own.sgemm, own.dgemm, own.bf16};
    MPI_Allreduce(MPI_IN_PLACE, sums, 3, MPI_DOUBLE, MPI_SUM, world);
    const double workers = size > 1 ? size - 1 : 1;
    *out = cost_rates_of(sums[0] / workers, sums[1] / workers, sums[2] / workers);
    return OK;
}

/* Fails unless the sweep's scratch folder (option, on rank 0) exists for every worker; otherwise
 * each visit would fail. Collective on world. */
static enum status scratch_check(MPI_Comm world, const char *option, struct err *e)
{
    AUTO_FREE char *name = NULL, *folder = NULL;
    int64_t n = option ? (int64_t)strlen(option) : 0, room;
    const int rank = comm_rank(world), size = comm_size(world);
    MPI_Bcast(&n, 1, MPI_INT64_T, 0, world);
    if (n == 0) return OK;
    enum status st = mem_zero(&name, n + 1, 1, "a folder's name", e);
    PASS(err_agree(world, st, e));
    if (rank == 0) memcpy(name, option, (size_t)n);
    MPI_Bcast(name, (int)n, MPI_CHAR, 0, world);
    if (size == 1 || rank > 0) st = scratch_find(name, 1, &folder, &room, e);
    return err_agree(world, st, e);
}

/* The shares of all ranks, for those that may have to replace one; on rank 0. Collective on world.
 */
static enum status gather_shares(struct run_master *m, MPI_Comm world, struct err *e)
{
    char own[LIMITS_SHARE_TEXT];
    const int rank = comm_rank(world), size = comm_size(world);
    enum status st = rank == 0 ? mem_zero(&m->shares, size, sizeof own, "ranks", e) : OK;
    PASS(err_agree(world, st, e));
    cli_share_write(own);
    MPI_Gather(own, sizeof own, MPI_CHAR, m->shares, sizeof own, MPI_CHAR, 0, world);
    return OK;
}

static const char *share_of(void *context, int64_t rank)
{
    return ((struct run_master *)context)->shares[rank];
}

/* After a failed write (a full or faulty disk) the run can be resumed; where a cube cannot even be
 * made in memory, it would fail again. */
static enum status resumable(struct call *c, enum status st, struct err *e)
{
    if (st == ERR_INTERNAL)
        err_prefix(e, "all records are in the journal, but the cube cannot be made, nor by "
                      "starting again; please report this");
    if (st != ERR_IO && st != ERR_FULL) return st;
    log_error("%s; stopped: start the run again to continue", e->text);
    err_clear(e);
    c->code = EXIT_STOPPED;
    return OK;
}

static void tell_later(int code)
{
    (void)code;
    startup_tell(STARTUP_LATER);
}

/* All ranks come to the same end, unless some are lost. Then the journal has all records, unless
 * the run was stopped: the states of finished visits go. */
static enum status finish_all_ranks(struct run_master *m, struct call *c, int rank, bool lost,
                                    struct visit_cache *cache, enum status st, struct err *e)
{
    const int code = st == OK ? c->code : cli_exit_code(st);
    if (rank == 0) run_journal_close(&m->out, code); /* while nothing can end this process */
    c->detached = rank == 0 ? m->link && link_finish(m->link, code, lost,
                                                     c->later ? tell_later : startup_tell)
                            : m->link && st != OK;
    if (c->detached && rank > 0) log_error("rank %d: %s", rank, e->text);
    if (c->detached) return st;
    st = err_agree(c->world, st, e);
    int stored = st == OK && c->code != EXIT_STOPPED;
    MPI_Bcast(&stored, 1, MPI_INT, 0, c->world);
    if (stored) visit_states_remove(cache);
    link_bye(m->link);
    return st;
}

static enum status run_jobs(struct run_master *m, struct call *c, int rank, struct err *e)
{
    struct worker worker = {.master = m->single_process ? m : NULL};
    struct sched_outcome outcome = {0};
    const struct sched_work work = {.run = run_visit, .context = &worker};
    struct sched_sink sink = run_master_sink;
    const struct sched_rescue rescue = {
        .link = m->link, .argv = m->argv, .terms = share_of, .lose = run_master_lose, .context = m};
    sink.context = m;
    if (rank == 0) run_master_start(m);
    enum status st = sched_run(c->world, m->jobs, m->visits.n, &work, &sink, &rescue, &outcome, e);
    if (st == OK && rank == 0) st = run_master_finish(m, &outcome, &c->code, e);
    c->later = st == OK && c->code == EXIT_STOPPED && !sched_must_stop();
    if (rank == 0) st = resumable(c, st, e);
    st = finish_all_ranks(m, c, rank, outcome.lost, &worker.cache, st, e);
    visit_cache_free(&worker.cache);
    return st;
}

static enum status take_share(void *context, const char *terms, struct err *e)
{
    (void)context;
    startup_end();
    return cli_share_take(terms, e);
}

/* This process takes the place of one that was lost. */
static enum status replace(struct call *c, MPI_Comm master, struct err *e)
{
    struct worker worker = {0};
    const struct sched_work work = {.run = run_visit, .context = &worker};
    c->detached = true;
    enum status st = sched_replace(c->world, master, &work, take_share, NULL, e);
    visit_cache_free(&worker.cache);
    return st;
}

static enum status prepare(struct run_master *m, struct call *c, int rank, struct err *e)
{
    PASS(gather_shares(m, c->world, e));
    m->worker = find_workers(c->world);
    PASS(find_rates(c->world, &m->rates, e));
    startup_end(); /* planning may take long */
    enum status st = OK;
    if (rank == 0) st = run_master_prepare(m, c->argc, c->argv, e);
    if (rank == 0 && m->link)
        link_alarm(m->link, patience_limit(), "the ranks have not begun to work within a minute");
    PASS(err_agree(c->world, st, e));
    return scratch_check(c->world, m->sweep.run.scratch, e);
}

static enum status run(struct call *c, struct err *e)
{
    enum status st = OK;
    struct run_arguments a = {0};
    struct run_master m = {0};
    MPI_Comm master;
    double until;
    const int rank = comm_rank(c->world), size = comm_size(c->world);
    m.single_process = size == 1;
    sched_catch_signals();
    TRY(run_arguments(&a, c, NULL, 0, e));
    if (c->help) goto done;
    m.sweep_path = a.path;
    m.set = a.set.text;
    m.n_set = a.set.n;
    m.choice = a.choice;
    m.adopt = a.adopt;
    m.so_far = a.so_far;
    if (sched_replaces(&master)) {
        st = replace(c, master, e);
        goto done;
    }
    if (rank == 0) st = run_until_find(a.until, &until, e);
    if (rank == 0 && st == OK) run_until_set(until);
    if (rank == 0 && st == OK) st = run_journal_watch(&m.out, e);
    if (st == OK) st = mem_zero(&m.argv, c->argc + 2, sizeof *m.argv, "arguments", e);
    TRY(err_agree(c->world, st, e));
    for (int i = -1; i < c->argc; i++) m.argv[1 + i] = c->argv[i]; /* the program's name first */
    TRY(link_open(c->world, run_journal_break, &m.out, &m.link, e));
    st = prepare(&m, c, rank, e);
    if (st == OK)
        st = run_jobs(&m, c, rank, e);
    else
        link_bye(m.link);
done:
    run_master_free(&m, st == OK ? c->code : cli_exit_code(st));
    run_arguments_free(&a);
    return st;
}

/* The second of two runs at once leaves within a second. */
static enum status refuse(struct call *c, struct err *e)
{
    CLEANUP(run_arguments_free) struct run_arguments arguments = {0};
    CLEANUP(sweep_free) struct sweep sweep = {0};
    AUTO_FREE char *results = NULL, *journal = NULL;
    PASS(run_arguments(&arguments, c, NULL, 0, e));
    if (!c->help) PASS(run_arguments_find(&arguments, &sweep, &results, &journal, e));
    return OK;
}

const struct command cmd_run = {
    .name = "run",
    .arguments = "SWEEP.yaml [--set KEY=VALUE] [--only KEY=PATTERN] ...",
    .doc = "compute the cells of a sweep, with or without mpirun",
    .all_ranks = true,
    .rank_0_waits = true,
    .early = refuse,
    .run = run,
};

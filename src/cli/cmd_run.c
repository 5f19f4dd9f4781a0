#include "cli/args.h"
#include "cli/cli.h"
#include "cli/progress.h"
#include "measure/surface.h"
#include "memory/states.h"
#include "plan/plan.h"
#include "results/results.h"
#include "sched/sched.h"
#include "util/agree.h"
#include "util/clock.h"
#include "util/fsx.h"
#include "util/log.h"
#include "util/mem.h"
#include "visit/visit.h"
#include <omp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char usage[] = "run SWEEP.yaml [--set KEY=VALUE] [--only KEY=PATTERN] ...";

/* What rank 0 holds during a run. */
struct master {
    const char *path;
    struct arg_list set, only;
    struct plan_choice choice;
    struct sweep sweep;
    struct plan plan;
    struct lock *lock;
    struct journal *journal;
    struct plan_visits visits;
    struct sched_task *tasks;
    struct plan_rank worker; /* the least that a worker has, and how many there are */
    bool unsynced, cube_stale;
    double unsynced_since;
    int64_t waiting_done, waiting_failed; /* appended, not yet durable */
    double cube_written, cube_seconds;
    struct progress progress;
};

static void master_free(struct master *m)
{
    arg_list_free(&m->set);
    arg_list_free(&m->only);
    for (int64_t i = 0; m->tasks && i < m->visits.n; i++) free(m->tasks[i].text);
    free(m->tasks);
    plan_visits_free(&m->visits);
    journal_close(m->journal);
    lock_release(m->lock);
    plan_free(&m->plan);
    sweep_free(&m->sweep);
}

/* --- before: arguments, plan, journal, tasks --- */

static enum status parse(struct master *m, int rank, int argc, char **argv, bool *help,
                         struct err *e)
{
    enum status st = OK;
    const char *retry = NULL;
    const struct arg table[] = {
        {"--set", ARG_LIST, &m->set, "KEY=VALUE", "override a key of the sweep file"},
        {"--only", ARG_LIST, &m->only, "KEY=PATTERN",
         "only cells whose model, checkpoint, bits or quantizer match, or points of a surface"},
        {"--retry", ARG_TEXT, &retry, "failed", "do failed cells again"},
        {"--redo", ARG_SWITCH, &m->choice.redo, NULL, "do finished cells again"},
    };
    const struct args args = {
        .table = table, .n = sizeof table / sizeof *table, .silent = rank != 0};
    TRY(args_parse(&args, usage, argc, argv, &m->path, 1, 1, NULL, help, e));
    ENSURE(!retry || strcmp(retry, "failed") == 0, ERR_USAGE, "--retry %s: expected failed", retry);
    m->choice.retry_failed = retry != NULL;
    m->choice.n_only = m->only.n;
    m->choice.only = m->only.items;
    TRY(plan_choice_check(&m->choice, e));
done:
    return st;
}

/* True if the newest plan of the journal has the same axes, settings and inputs. */
static bool plan_known(const struct journal *j, const json_t *plan)
{
    static const char *const keys[] = {"name",     "models", "bits",   "quantizers", "datasets",
                                       "variants", "config", "inputs", "surfaces"};
    for (int64_t i = journal_n(j) - 1; i >= 0; i--) {
        const json_t *r = journal_record(j, i);
        if (strcmp(json_text(r, "type", ""), "plan") != 0) continue;
        for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
            if (!json_equal(json_object_get(r, keys[k]), json_object_get(plan, keys[k])))
                return false;
        return true;
    }
    return false;
}

static enum status append_plan(struct master *m, const char *command, struct err *e)
{
    enum status st = OK;
    json_t *record = NULL;
    TRY(plan_record(&m->plan, command, &record, e));
    if (plan_known(m->journal, record)) goto done;
    TRY(journal_append(m->journal, record, e));
    m->unsynced = m->cube_stale = true;
done:
    json_decref(record);
    return st;
}

/* How many ranks visits of each model take (models of the sweep): as many as the sweep says, or as
 * few as their memory allows. */
static enum status find_ranks(struct master *m, int64_t **out, struct err *e)
{
    enum status st = OK;
    const struct run_options *o = &m->sweep.run;
    struct plan_rank rank = m->worker;
    int64_t *variants = NULL;
    TRY(mem_zero(out, m->sweep.n_models, sizeof **out, "models", e));
    TRY(mem_zero(&variants, m->plan.n_variants, sizeof *variants, "variants", e));
    for (int64_t i = 0; i < m->plan.n_variants; i++) variants[i] = i;
    if (o->memory) rank.memory = o->memory;
    if (o->threads > 0) rank.threads = o->threads;
    rank.scratch = !o->scratch || strcmp(o->scratch, "off") != 0;
    for (int64_t i = 0; i < m->sweep.n_models; i++) {
        (*out)[i] = o->ranks_per_group;
        if (o->ranks_per_group < 1)
            (*out)[i] = plan_model_ranks(&m->plan, i, variants, m->plan.n_variants, &rank);
        log_trace("sched", "%s: %lld ranks a visit", m->sweep.models[i].name, (long long)(*out)[i]);
    }
done:
    free(variants);
    return st;
}

static int64_t model_of(const struct master *m, const struct visit *v)
{
    int64_t i = 0;
    while (i < m->sweep.n_models - 1 && strcmp(m->sweep.models[i].name, v->model) != 0) i++;
    return i;
}

/* Whether a visit is a point of the same surface as the one before: they read the same files. */
static bool goes_on(const struct plan_visits *v, int64_t i)
{
    const struct surface_task *here = v->visits[i].task[PART_SURFACE];
    const struct surface_task *before = i > 0 ? v->visits[i - 1].task[PART_SURFACE] : NULL;
    return here && before && strcmp(here->surface, before->surface) == 0;
}

static enum status make_tasks(struct master *m, struct err *e)
{
    enum status st = OK;
    int64_t *ranks = NULL;
    TRY(find_ranks(m, &ranks, e));
    TRY(mem_zero(&m->tasks, m->visits.n, sizeof *m->tasks, "tasks", e));
    for (int64_t i = 0; i < m->visits.n; i++) {
        json_t *json = visit_to_json(&m->visits.visits[i]);
        m->tasks[i] = (struct sched_task){
            .cost = m->visits.cost[i],
            .n_parts = m->visits.n_parts[i],
            .parts = m->visits.parts[i],
            .kind = m->visits.kind[i],
            .files = goes_on(&m->visits, i) ? m->tasks[i - 1].files : 1 + i,
            .ranks = ranks[model_of(m, &m->visits.visits[i])],
            .text = json ? json_dumps(json, JSON_COMPACT | JSON_SORT_KEYS) : NULL};
        json_decref(json);
        ENSURE(m->tasks[i].text, ERR_NOMEM, "out of memory for the tasks");
    }
done:
    free(ranks);
    return st;
}

/* What the cube's provenance keeps: the arguments as they were given. The caller frees. */
static enum status join(int argc, char **argv, char **out, struct err *e)
{
    enum status st = OK;
    size_t n = 1;
    for (int i = 0; i < argc; i++) n += strlen(argv[i]) + 1;
    TRY(mem_zero(out, (int64_t)n, 1, "the command", e));
    for (int i = 0; i < argc; i++) {
        if (i > 0) strcat(*out, " ");
        strcat(*out, argv[i]);
    }
done:
    return st;
}

/* The cube replaces what stands at its path, which must be an earlier one of this journal. */
static enum status check_place(const char *results, const char *journal, struct err *e)
{
    enum status st = OK;
    if (access(results, F_OK) != 0) goto done;
    ENSURE(fsx_is_file(results), ERR_USAGE, "results: %s is not a file that can be replaced",
           results);
    ENSURE(fsx_is_file(journal), ERR_USAGE,
           "results: %s is there and its journal %s is not: a run would write over it; move it "
           "away, or name another file",
           results, journal);
done:
    return st;
}

static enum status prepare(struct master *m, const char *command, struct err *e)
{
    enum status st = OK;
    char *path = NULL;
    struct results_view *view = NULL;
    TRY(sweep_read(m->path, (const char *const *)m->set.items, m->set.n, &m->sweep, e));
    TRY(plan_make(&m->sweep, &m->plan, e));
    TRY(fsx_make_parent(m->sweep.results, e));
    TRY(lock_take(m->sweep.results, &m->lock, e));
    TRY(journal_path(m->sweep.results, &path, e));
    TRY(check_place(m->sweep.results, path, e));
    TRY(journal_open(path, &m->journal, e));
    TRY(append_plan(m, command, e));
    TRY(results_view_of_journal(m->journal, &view, e));
    plan_costs_learn(&m->plan, view);
    TRY(plan_visits_make(&m->plan, view, &m->choice, &m->visits, e));
    TRY(make_tasks(m, e));
    if (!fsx_is_file(m->sweep.results)) m->cube_stale = true;
done:
    results_view_close(view);
    free(path);
    return st;
}

/* --- during: results into the journal, the cube from time to time --- */

static enum status accept(void *context, const char *result, struct err *e)
{
    enum status st = OK;
    struct master *m = context;
    json_t *record = NULL;
    TRY(json_read_text("result", result, strlen(result), &record, e));
    TRY(journal_append(m->journal, record, e));
    if (!m->unsynced) m->unsynced_since = clock_seconds();
    m->unsynced = m->cube_stale = true;
    const char *type = json_text(record, "type", "");
    if (strcmp(type, "cell") != 0 && strcmp(type, "point") != 0) goto done;
    if (strcmp(json_text(record, "status", ""), "done") == 0)
        m->waiting_done++;
    else
        m->waiting_failed++;
done:
    json_decref(record);
    return st;
}

static enum status sync_journal(struct master *m, struct err *e)
{
    enum status st = OK;
    if (!m->unsynced) return OK;
    TRY(journal_sync(m->journal, e));
    m->unsynced = false;
    progress_add(&m->progress, m->waiting_done, m->waiting_failed);
    m->waiting_done = m->waiting_failed = 0;
done:
    return st;
}

static enum status write_cube(struct master *m, struct err *e)
{
    enum status st = OK;
    struct results_view *view = NULL;
    double start = clock_seconds();
    TRY(results_view_of_journal(m->journal, &view, e));
    TRY(cube_write(m->sweep.results, view, e));
    m->cube_stale = false;
    m->cube_written = clock_seconds();
    m->cube_seconds = m->cube_written - start;
done:
    results_view_close(view);
    return st;
}

/* The journal is made durable within some milliseconds: one fdatasync for all that came together.
 * The cube is renewed as often as stays within 1 % of the time, and at the end. */
static enum status tick(void *context, struct err *e)
{
    enum status st = OK;
    struct master *m = context;
    const double together = 5e-3;
    if (m->unsynced && clock_seconds() - m->unsynced_since >= together) TRY(sync_journal(m, e));
    double since = clock_seconds() - m->cube_written;
    if (m->cube_stale && since > 10 && since > 100 * m->cube_seconds) TRY(write_cube(m, e));
    progress_print(&m->progress, false);
done:
    return st;
}

/* --- a worker's part --- */

struct worker {
    struct visit_cache cache;
    struct sched_port *port;
};

static enum status send_record(void *context, const json_t *record, struct err *e)
{
    enum status st = OK;
    struct worker *w = context;
    char *text = json_dumps(record, JSON_COMPACT);
    ENSURE(text, ERR_NOMEM, "out of memory for a record");
    TRY(sched_send(w->port, text, e));
done:
    free(text);
    return st;
}

static bool should_stop(void *context)
{
    return sched_should_stop(((struct worker *)context)->port);
}

static enum status run_visit(void *context, MPI_Comm group, const struct sched_piece *piece,
                             struct sched_port *port, struct err *e)
{
    enum status st = OK;
    struct worker *w = context;
    struct visit visit = {0};
    json_t *json = NULL;
    const struct visit_hooks hooks = {.context = w,
                                      .memory = cli_share()->memory / 10 * 9,
                                      .ranks = cli_share()->workers,
                                      .emit = send_record,
                                      .should_stop = should_stop};
    w->port = port;
    TRY(json_read_text("task", piece->text, strlen(piece->text), &json, e));
    TRY(visit_from_json(json, &visit, e));
    if (visit.run.threads > 0) omp_set_num_threads((int)visit.run.threads);
    if (piece->n_parts) visit_keep_pieces(&visit, piece->parts, piece->n_parts);
    log_trace("sched", "visits %s %s%s with %lld variants%s", visit.model, visit.checkpoint,
              visit.task[PART_SURFACE] ? ", a point of a surface," : "",
              (long long)visit.n_variants, visit.task[PART_CURVATURE] ? " and its curvature" : "");
    TRY(visit_run(&visit, group, &w->cache, &hooks, e));
done:
    json_decref(json);
    visit_free(&visit);
    return st;
}

/* --- after --- */

/* One line a kind of result: how many records are how far. */
static void print_counts(const struct master *m, const struct inventory *all, const char *verdict)
{
    for (int i = 0; results_kinds[i]; i++) {
        const struct kind *k = results_kinds[i];
        const struct result_counts n = rows_count(&all->rows[i], -1);
        const bool main = k->report == REPORT_MODELS;
        char pending[32] = "";
        if (k->report == REPORT_NONE || (!main && !n.records)) continue;
        if (main)
            snprintf(pending, sizeof pending, ", %lld pending",
                     (long long)n.by_state[STATE_PENDING]);
        log_info("%s: %s%lld of %lld %s%s%s%s done, %lld failed%s%s", m->sweep.results, k->prefix,
                 (long long)n.by_state[STATE_DONE], (long long)n.records, k->noun,
                 k->part ? " of " : "", k->part ? k->part : "", k->part ? "s" : "",
                 (long long)n.by_state[STATE_FAILED], pending, main ? verdict : "");
    }
}

static bool any_failed(const struct inventory *all)
{
    for (int i = 0; results_kinds[i]; i++)
        if (results_kinds[i]->report != REPORT_NONE &&
            rows_count(&all->rows[i], -1).by_state[STATE_FAILED])
            return true;
    return false;
}

static enum status finish(struct master *m, const struct sched_outcome *outcome, int *code,
                          struct err *e)
{
    enum status st = OK;
    struct results_view *view = NULL;
    struct inventory all = {0};
    json_t *end = NULL;
    char utc[21];
    TRY(sync_journal(m, e));
    TRY(results_view_of_journal(m->journal, &view, e));
    TRY(plan_inventory(&m->plan, view, &all, e));
    bool failed = any_failed(&all);
    *code = outcome->end != SCHED_DONE ? EXIT_STOPPED : failed ? EXIT_CELLS_FAILED : EXIT_DONE;
    clock_utc(utc);
    if (m->visits.n) {
        end = json_pack("{s:s, s:s, s:s, s:i}", "type", "end", "status",
                        outcome->end == SCHED_DONE ? "done" : "stopped", "utc", utc, "exit_code",
                        *code);
        ENSURE(end, ERR_NOMEM, "out of memory for the end record");
        TRY(journal_append(m->journal, end, e));
        TRY(journal_sync(m->journal, e));
        m->cube_stale = true;
    }
    if (m->cube_stale) TRY(write_cube(m, e));
    progress_print(&m->progress, true);
    print_counts(m, &all,
                 m->visits.n == 0             ? "; nothing to do"
                 : outcome->end == SCHED_DONE ? ""
                                              : "; stopped, resumable");
    if (failed)
        log_info("qtraj status %s says why some failed; qtraj run --retry failed does them again",
                 m->sweep.results);
done:
    inventory_close(&all);
    json_decref(end);
    results_view_close(view);
    return st;
}

static enum status run_all(MPI_Comm world, struct master *m, int rank,
                           struct sched_outcome *outcome, struct err *e)
{
    enum status st = OK;
    struct worker worker = {0};
    const struct sched_work work = {.run = run_visit, .context = &worker};
    const struct sched_sink sink = {.accept = accept, .tick = tick, .context = m};
    if (rank == 0) {
        progress_start(&m->progress, m->visits.n_cells + m->visits.n_points);
        m->cube_written = clock_seconds();
        if (m->visits.n_cells || m->visits.n > m->visits.n_points)
            log_info("%lld visits, %lld cells to do", (long long)(m->visits.n - m->visits.n_points),
                     (long long)m->visits.n_cells);
        if (m->visits.n_curvature)
            log_info("curvature of %lld checkpoints to do", (long long)m->visits.n_curvature);
        if (m->visits.n_points)
            log_info("%lld points of surfaces to do", (long long)m->visits.n_points);
    }
    TRY(sched_run(world, m->tasks, m->visits.n, &work, &sink, outcome, e));
done:
    visit_cache_free(&worker.cache);
    return st;
}

/* What ranks have that work: the one that has least speaks for all. Collective. */
static struct plan_rank find_workers(MPI_Comm world)
{
    const struct limits_share *s = cli_share();
    int rank, size;
    MPI_Comm_rank(world, &rank);
    MPI_Comm_size(world, &size);
    bool works = size == 1 || rank > 0;
    int64_t own[4] = {INT64_MAX, INT64_MAX, INT64_MAX, 0}, least[4];
    if (works) {
        own[0] = s->memory / 10 * 9;
        own[1] = s->workers;
        own[2] = s->cores;
        own[3] = -memory_base_now(NULL, s->cores); /* the greatest */
    }
    MPI_Allreduce(own, least, 4, MPI_INT64_T, MPI_MIN, world);
    return (struct plan_rank){.memory = least[0],
                              .base = -least[3],
                              .mates = least[1] > 0 ? least[1] : 1,
                              .threads = least[2] > 0 ? least[2] : 1,
                              .ranks = size > 1 ? size - 1 : 1};
}

/* The folder that the sweep names (option, on rank 0) is there for every rank that works: without
 * it each visit would fail by itself. Collective on world. */
static enum status scratch_check(MPI_Comm world, const char *option, struct err *e)
{
    enum status st = OK;
    char *name = NULL, *folder = NULL;
    int64_t n = option ? (int64_t)strlen(option) : 0, room;
    int rank, size;
    MPI_Comm_rank(world, &rank);
    MPI_Comm_size(world, &size);
    MPI_Bcast(&n, 1, MPI_INT64_T, 0, world);
    if (n == 0) return OK;
    st = mem_zero(&name, n + 1, 1, "a folder's name", e);
    TRY(err_agree(world, st, e));
    if (rank == 0) memcpy(name, option, (size_t)n);
    MPI_Bcast(name, (int)n, MPI_CHAR, 0, world);
    if (size == 1 || rank > 0) st = scratch_find(name, 1, &folder, &room, e);
    TRY(err_agree(world, st, e));
done:
    free(name);
    free(folder);
    return st;
}

static enum status run(MPI_Comm world, int argc, char **argv, int *code, struct err *e)
{
    enum status st = OK;
    struct master m = {0};
    struct sched_outcome outcome = {0};
    char *command = NULL;
    bool help = false, started = false;
    int rank;
    MPI_Comm_rank(world, &rank);
    sched_catch_signals();
    st = parse(&m, rank, argc, argv, &help, e);
    m.worker = find_workers(world);
    if (st == OK) st = join(argc, argv, &command, e);
    if (st == OK && !help && rank == 0) st = prepare(&m, command, e);
    TRY(err_agree(world, st, e));
    if (help) goto done;
    TRY(scratch_check(world, m.sweep.run.scratch, e));
    started = true;
    TRY(run_all(world, &m, rank, &outcome, e));
    if (rank == 0) st = finish(&m, &outcome, code, e);
    TRY(err_agree(world, st, e));
done:
    /* What fails once cells are being written can be resumed: a full or faulty disk. */
    if (started && rank == 0 && (st == ERR_IO || st == ERR_FULL)) {
        log_error("%s; stopped, finished cells are kept in the journal, start again to go on",
                  e->text);
        err_clear(e);
        *code = EXIT_STOPPED;
        st = OK;
    }
    master_free(&m);
    free(command);
    return st;
}

const struct command cmd_run = {
    .name = "run",
    .arguments = usage,
    .doc = "fill the cells of a sweep (under mpirun or alone)",
    .all_ranks = true,
    .rank_0_waits = true,
    .run = run,
};

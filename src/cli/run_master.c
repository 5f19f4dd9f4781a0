#include "cli/run_master.h"
#include "cli/run_stage.h"
#include "cli/run_task.h"
#include "plan/plan_parts.h"
#include "results/part_files.h"
#include "results/results.h"
#include "saved/saved.h"
#include "util/clock.h"
#include "util/fsx.h"
#include "util/log.h"
#include "util/mem.h"
#include "util/quantity.h"
#include "visit/visit.h"
#include <stdlib.h>
#include <string.h>

void run_master_free(struct run_master *m, int exit_code)
{
    run_arguments_free(&m->arguments);
    for (int64_t i = 0; m->tasks && i < m->visits.n; i++) {
        free(m->tasks[i].text);
        free(m->tasks[i].name);
    }
    run_stage_end();
    free(m->tasks);
    free(m->losses);
    free(m->shares);
    free(m->argv);
    run_delivered_free(&m->delivered);
    progress_free(&m->progress);
    plan_visits_free(&m->visits);
    run_hand_free(&m->hand);
    run_journal_close(&m->out, exit_code);
    plan_free(&m->plan);
    free(m->results);
    sweep_free(&m->sweep);
    json_decref(m->stale);
}

/* --- before: plan, journal, tasks --- */

/* True if the newest plan of the journal has the same axes, settings and inputs. */
static bool plan_known(const json_t *newest, const json_t *plan)
{
    static const char *const keys[] = {"name",     "models",   "bits",   "quantizers",
                                       "datasets", "variants", "config", "inputs",
                                       "surfaces", "columns",  "part"};
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
        const json_t *old = json_object_get(newest, keys[k]);
        const json_t *new = json_object_get(plan, keys[k]);
        if ((old || new) && !json_equal(old, new)) return false;
    }
    return newest != NULL;
}

/* Which visits of the plan a part has. */
static enum status add_part(const struct plan_part *part, json_t *record, struct err *e)
{
    if (part->n == 0) return OK;
    json_t *json =
        json_pack("{s:I, s:I, s:I, s:I}", "k", (json_int_t)part->k, "n", (json_int_t)part->n,
                  "first", (json_int_t)part->first, "end", (json_int_t)part->end);
    NEED(json && json_object_set_new(record, "part", json) == 0, ERR_NOMEM,
         "out of memory for the plan");
    return OK;
}

/* The command as it was given is part of the cube's provenance. */
static enum status append_plan(struct run_master *m, const struct results_view *v, int argc,
                               char **argv, struct err *e)
{
    enum status st = OK;
    json_t *record = NULL;
    char *command = NULL;
    TRY(mem_string(&command, argv[0], e));
    for (int i = 1; i < argc; i++) {
        char *shorter = command;
        st = mem_format(&command, e, "%s %s", shorter, argv[i]);
        free(shorter);
        TRY(st);
    }
    TRY(plan_record(&m->plan, command, &record, e));
    TRY(add_part(&m->arguments.choice.part, record, e));
    if (plan_known(results_view_plan(v), record)) goto done;
    TRY(run_journal_append(&m->out, record, e));
    m->unsynced = m->cube_stale = true;
done:
    json_decref(record);
    free(command);
    return st;
}

/* How the visits of a model will run. */
struct manner {
    int64_t ranks;      /* that a visit takes */
    double saved_after; /* as in struct sched_task */
};

/* Seconds after which a visit of the model by such ranks saves its state; 0: never. */
static double find_saved_after(const struct run_master *m, int64_t model, const int64_t *variants,
                               const struct plan_rank *rank)
{
    struct memory_plan memory;
    struct err why = {0};
    const char *folder = m->sweep.run.checkpoints;
    double after = 0;
    if (folder && strcmp(folder, "off") == 0) return 0;
    if (m->plan.costs.models[model].known &&
        plan_visit_memory(&m->plan, model, variants, m->plan.n_variants, rank, &memory, &why) == OK)
        after = saved_first_after(rank->ranks * memory.saved);
    err_clear(&why);
    return after;
}

/* *out (models) = as many ranks as the sweep says, or the least that the memory needs. Prices the
 * visits as they will run on so many. */
static enum status find_manners(struct run_master *m, struct manner **out, struct err *e)
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
        struct plan_rank group = rank;
        group.ranks = o->ranks_per_group;
        if (o->ranks_per_group < 1)
            group.ranks = plan_model_ranks(&m->plan, i, variants, m->plan.n_variants, &rank);
        (*out)[i].ranks = group.ranks;
        (*out)[i].saved_after = find_saved_after(m, i, variants, &group);
        log_trace("sched", "%s: %lld ranks a visit, saved after %.3g s", m->sweep.models[i].name,
                  (long long)group.ranks, (*out)[i].saved_after);
        plan_costs_fit(&m->plan, i, &group);
    }
done:
    free(variants);
    return st;
}

static enum status make_tasks(struct run_master *m, const struct results_view *view,
                              const struct manner *manners, struct err *e)
{
    PASS(mem_zero(&m->tasks, m->visits.n, sizeof *m->tasks, "tasks", e));
    PASS(mem_zero(&m->losses, m->visits.n, sizeof *m->losses, "tasks", e));
    for (int64_t i = 0; i < m->visits.n; i++) {
        const struct plan_visit *v = &m->visits.visits[i];
        m->tasks[i] = (struct sched_task){.id = i,
                                          .cost = v->cost,
                                          .n_parts = v->n_pieces,
                                          .parts = v->pieces,
                                          .kind = v->kind,
                                          .files = v->files,
                                          .turn = v->turn,
                                          .ranks = manners[v->model].ranks,
                                          .saved_after = manners[v->model].saved_after,
                                          .saved = v->saved};
        if (v->visit.task[MEASURE_point]) m->tasks[i].saved_after = 0;
        m->losses[i] = run_losses_before(view, v->visit.key);
        PASS(run_task_name(&v->visit, &m->tasks[i].name, e));
        if (!m->alone) PASS(run_task_write(v, &m->tasks[i].text, e));
    }
    return OK;
}

/* What parts have finished is no part of its journal. */
static enum status whole_sweep(struct run_master *m, struct err *e)
{
    char *folder = NULL;
    struct part_places parts = {0};
    PASS(mem_string(&m->results, m->sweep.results, e));
    PASS(parts_folder(m->results, &folder, e));
    if (parts_list(folder, &parts, NULL) == OK && parts.n)
        log_warn("%s holds parts of this sweep, and a run without --part computes again what they "
                 "have finished, unless `qtraj merge %s %s` has merged them",
                 folder, m->results, folder);
    parts_free(&parts);
    free(folder);
    return OK;
}

/* Where the results go, and which visits they are of. */
static enum status find_part(struct run_master *m, struct err *e)
{
    const struct plan_part *part = &m->arguments.choice.part;
    const char *results = m->sweep.results;
    if (part->n == 0) return whole_sweep(m, e);
    PASS(plan_part_find(&m->plan, true, &m->arguments.choice.part, e));
    PASS(parts_path(results, part->k, part->n, &m->results, e));
    m->plan.results = m->results;
    log_info("part %lld of %lld: %lld of the sweep's visits, into %s%s", (long long)part->k,
             (long long)part->n, (long long)(part->end - part->first), m->results,
             part->end > part->first ? "" : "; there are more parts than visits");
    return OK;
}

/* *out = what is finished: a part also looks at what the sweep's other journals hold. */
static enum status view_results(const struct run_master *m, struct results_view **out,
                                struct err *e)
{
    PASS(results_view_of_journal(m->out.journal, VIEW_STATES, out, e));
    const struct plan_part *part = &m->arguments.choice.part;
    if (part->n == 0) return OK;
    return parts_add_records(m->sweep.results, m->out.path, part->disjoint ? part->n : 0,
                             VIEW_STATES, *out, e);
}

/* The records that the run is about, with their states. */
static enum status take_inventory(const struct run_master *m, const struct results_view *view,
                                  struct inventory *out, struct err *e)
{
    const struct plan_part *part = &m->arguments.choice.part;
    PASS(plan_inventory(&m->plan, view, out, e));
    if (part->n) inventory_cut(out, part->first, part->end);
    return OK;
}

enum status run_master_prepare(struct run_master *m, int argc, char **argv, struct err *e)
{
    enum status st = OK;
    struct results_view *view = NULL;
    struct manner *manners = NULL;
    const struct plan_part *part = &m->arguments.choice.part;
    TRY(sweep_read(m->arguments.path, (const char *const *)m->arguments.set.items,
                   m->arguments.set.n, &m->sweep, e));
    TRY(run_stage_first(&m->sweep, part, true, e));
    TRY(plan_make(&m->sweep, false, &m->plan, e));
    TRY(plan_choice_match(&m->plan, &m->arguments.choice, e));
    TRY(find_part(m, e));
    TRY(fsx_make_parent(m->results, e));
    TRY(run_journal_open(&m->out, m->results, &m->cube_stale, e));
    TRY(view_results(m, &view, e));
    m->stale = json_incref((json_t *)(uintptr_t)results_view_stale(view));
    TRY(plan_warn_changed(&m->plan, view, e));
    TRY(append_plan(m, view, argc, argv, e));
    m->plan.costs.rates = m->rates;
    cost_rates_choose(&m->plan.costs.rates, (enum products)m->sweep.run.products);
    TRY(find_manners(m, &manners, e));
    plan_costs_learn(&m->plan, view);
    TRY(plan_visits_make(&m->plan, view, &m->arguments.choice, &m->visits, e));
    if (m->visits.n) TRY(plan_warn(&m->plan, e));
    TRY(plan_visits_begun(&m->plan, &m->visits, e));
    TRY(run_stage_begin(&m->plan, &m->visits, part, e));
    TRY(make_tasks(m, view, manners, e));
done:
    free(manners);
    results_view_close(view);
    return st;
}

/* --- during: results into the journal, the cube from time to time --- */

void run_master_start(struct run_master *m)
{
    const struct plan_visits *v = &m->visits;
    const int64_t cells = v->to_make[MEASURE_cell], points = v->to_make[MEASURE_point],
                  replicates = v->to_make[MEASURE_replicate],
                  accuracies = v->to_make[MEASURE_baseline_task] + v->to_make[MEASURE_task];
    progress_start(&m->progress, v->to_make);
    m->cube_written = clock_seconds();
    if (cells || v->n > points)
        log_info("%lld visit%s, %lld cell%s to do", (long long)(v->n - points),
                 quantity_plural(v->n - points), (long long)cells, quantity_plural(cells));
    if (replicates)
        log_info("%lld replicate%s of cells to do", (long long)replicates,
                 quantity_plural(replicates));
    if (v->n_completions)
        log_info("predictions of %lld scored cell%s to do", (long long)v->n_completions,
                 quantity_plural(v->n_completions));
    if (accuracies)
        log_info("%lld %s on tasks to do", (long long)accuracies,
                 accuracies == 1 ? "accuracy" : "accuracies");
    if (v->n_exports)
        log_info("%lld quantized model%s to write", (long long)v->n_exports,
                 quantity_plural(v->n_exports));
    for (int k = 0; k < MEASURES_N; k++)
        if (measures[k]->prefix && measures[k]->prefix[0] && v->to_make[k])
            log_info("%s%lld checkpoint%s to do", measures[k]->prefix, (long long)v->to_make[k],
                     quantity_plural(v->to_make[k]));
    for (int k = 0; k < MEASURES_N; k++)
        if (measures[k]->cell_key && v->to_make[k])
            log_info("%lld %s to do", (long long)v->to_make[k], measures[k]->noun);
    if (points)
        log_info("%lld point%s of surfaces to do", (long long)points, quantity_plural(points));
}

enum status run_master_take(struct run_master *m, const json_t *record, struct err *e)
{
    PASS(run_journal_append(&m->out, record, e));
    if (!m->alone) PASS(run_delivered_add(&m->delivered, record, e));
    if (!m->unsynced) m->unsynced_since = clock_seconds();
    m->unsynced = m->cube_stale = true;
    json_object_del(m->stale, json_text(record, "key", ""));
    const struct measure *of = measure_find(json_text(record, "type", ""));
    const bool failed = strcmp(json_text(record, "status", ""), "failed") == 0;
    for (int k = 0; of && k < MEASURES_N; k++)
        if (measures[k] == of && m->progress.counts[k].total)
            ++*(failed ? &m->waiting[k].failed : &m->waiting[k].done);
    return failed ? progress_fail(&m->progress, record, e) : OK;
}

static enum status sync_journal(struct run_master *m, struct err *e)
{
    if (!m->unsynced) return OK;
    PASS(run_journal_sync(&m->out, e));
    m->unsynced = false;
    for (int k = 0; k < MEASURES_N; k++)
        progress_add(&m->progress, k, m->waiting[k].done, m->waiting[k].failed);
    memset(m->waiting, 0, sizeof m->waiting);
    return OK;
}

static enum status take(void *context, const json_t *record, struct err *e)
{
    return run_master_take(context, record, e);
}

/* The third time in a row, its cells fail. */
static enum status give_up(struct run_master *m, struct sched_loss *loss, struct err *e)
{
    enum status st = OK;
    char *reason = NULL;
    const struct visit *v = &m->visits.visits[loss->task].visit;
    TRY(mem_format(&reason, e,
                   "its ranks were lost %d times in a row in this visit; the last time, %s",
                   RUN_LOSSES_MOST, loss->why));
    TRY(run_losses_refuse(v, loss, reason, take, m, e));
    loss->again = false;
done:
    free(reason);
    return st;
}

enum status run_master_lose(void *context, struct sched_loss *loss, struct err *e)
{
    enum status st = OK;
    struct run_master *m = context;
    struct plan_visit *v = &m->visits.visits[loss->task];
    struct sched_task *t = &m->tasks[loss->task];
    json_t *record = NULL;
    const int64_t parts = loss->n_parts;
    run_losses_settle(&m->delivered, &v->visit, loss);
    const bool advanced = loss->kept || loss->n_parts < parts;
    const int64_t count = m->losses[loss->task] = advanced ? 1 : m->losses[loss->task] + 1;
    const bool poisoned = loss->again && count >= RUN_LOSSES_MOST;
    if (poisoned) TRY(give_up(m, loss, e));
    TRY(run_losses_record(v->visit.key, count, loss->why, &record, e));
    TRY(run_journal_append(&m->out, record, e));
    m->unsynced = true;
    TRY(sync_journal(m, e));
    free(t->text);
    t->text = NULL;
    TRY(run_task_write(v, &t->text, e));
done:
    loss->text = t->text;
    log_warn("%s after %.0f s in %s%s", loss->why, loss->seconds, t->name,
             poisoned      ? ", for the third time in a row: its cells fail"
             : loss->again ? "; what is missing of it goes to another"
                           : "");
    json_decref(record);
    return st;
}

void run_master_finished(void *context, int64_t id)
{
    (void)context;
    run_stage_end_visit(id);
}

double run_master_watch(void *context, const struct sched_progress *p)
{
    struct run_master *m = context;
    const double now = clock_seconds(), often = run_hand_note(&m->hand, m->out.path, p);
    if (now >= m->progress_due) m->progress_due = now + progress_print(&m->progress, p);
    return m->progress_due - now < often ? m->progress_due - now : often;
}

enum status run_master_accept(void *context, const char *result, struct err *e)
{
    enum status st = OK;
    json_t *record = NULL;
    TRY(json_read_text("result", result, strlen(result), &record, e));
    TRY(run_master_take(context, record, e));
done:
    json_decref(record);
    return st;
}

static enum status write_cube(struct run_master *m, struct err *e)
{
    enum status st = OK;
    struct results_view *view = NULL;
    double start = clock_seconds();
    TRY(results_view_of_journal(m->out.journal, VIEW_BY_LINE, &view, e));
    TRY(run_journal_write_cube(&m->out, view, e));
    m->cube_stale = false;
    m->cube_written = clock_seconds();
    m->cube_seconds = m->cube_written - start;
done:
    results_view_close(view);
    return st;
}

/* One fdatasync makes all records durable that arrive within some milliseconds. Writing the cube
 * may take 1 % of the time, and no memory of a visit in this process; it is also written at the
 * end. */
enum status run_master_tick(void *context, struct err *e)
{
    struct run_master *m = context;
    const double together = 5e-3;
    if (m->unsynced && clock_seconds() - m->unsynced_since >= together) PASS(sync_journal(m, e));
    double since = clock_seconds() - m->cube_written;
    if (m->cube_stale && !m->visiting && since > 10 && since > 100 * m->cube_seconds)
        PASS(write_cube(m, e));
    progress_tell_failures(&m->progress);
    return run_stage_check(e);
}

/* --- after --- */

/* One line per kind of result: how many records are done and failed. */
static void print_counts(const struct run_master *m, const struct inventory *all,
                         const char *verdict)
{
    for (int i = 0; recorded_measures[i]; i++) {
        const struct measure *k = recorded_measures[i];
        const struct result_counts n = rows_count(&all->rows[i], -1);
        const bool main = k->report == REPORT_MODELS;
        char pending[32] = "";
        if (k->report == REPORT_NONE || (!main && !n.records)) continue;
        if (main)
            snprintf(pending, sizeof pending, ", %lld pending",
                     (long long)n.by_state[STATE_PENDING]);
        log_info("%s: %s%lld of %lld %s%s%s%s done, %lld failed%s%s", m->results, k->prefix,
                 (long long)n.by_state[STATE_DONE], (long long)n.records, k->noun,
                 k->part ? " of " : "", k->part ? k->part : "", k->part ? "s" : "",
                 (long long)n.by_state[STATE_FAILED], pending, main ? verdict : "");
    }
}

/* Why a run whose time is limited has begun no more. */
static void tell_shortest(const struct sched_outcome *outcome)
{
    char text[QUANTITY];
    if (outcome->end == SCHED_DONE || outcome->shortest <= 0 || sched_told_to_end()) return;
    quantity_time(outcome->shortest, text);
    log_info("too little time was left for the rest; the shortest of it is expected to take %s",
             text);
}

static bool any_failed(const struct inventory *all)
{
    for (int i = 0; recorded_measures[i]; i++)
        if (recorded_measures[i]->report != REPORT_NONE &&
            rows_count(&all->rows[i], -1).by_state[STATE_FAILED])
            return true;
    return false;
}

/* When nothing is pending, no run will continue the states that interrupted ones have left. */
static enum status remove_states(const struct run_master *m, const struct inventory *all,
                                 struct err *e)
{
    char *folder;
    for (int i = 0; recorded_measures[i]; i++)
        if (rows_count(&all->rows[i], -1).by_state[STATE_PENDING]) return OK;
    PASS(plan_states_folder(&m->plan, &folder, e));
    if (folder) saved_remove_all(folder);
    free(folder);
    return OK;
}

/* Whether a visit has found weights that finished results of the plan were not made from. */
static bool has_stale(const struct run_master *m, const struct inventory *all, const json_t *stale)
{
    for (int k = 0; recorded_measures[k]; k++)
        for (int64_t i = 0; i < all->rows[k].n; i = rows_next(&all->rows[k], i)) {
            const char *key = all->rows[k].rows[i].key;
            if (json_object_get(stale, key) && !json_object_get(m->stale, key)) return true;
        }
    return false;
}

enum status run_master_finish(struct run_master *m, const struct sched_outcome *outcome, int *code,
                              struct err *e)
{
    enum status st = OK;
    struct results_view *view = NULL;
    struct inventory all = {0};
    bool ended;
    TRY(sync_journal(m, e));
    TRY(view_results(m, &view, e));
    TRY(take_inventory(m, view, &all, e));
    bool failed = any_failed(&all);
    const bool done = outcome->end == SCHED_DONE && !has_stale(m, &all, results_view_stale(view));
    *code = !done ? EXIT_STOPPED : failed ? EXIT_CELLS_FAILED : EXIT_DONE;
    TRY(run_journal_end(&m->out, done ? "done" : "stopped", *code, &ended, e));
    if (m->cube_stale || ended) TRY(write_cube(m, e));
    if (done) TRY(remove_states(m, &all, e));
    run_journal_finish(&m->out);
    progress_end(&m->progress);
    tell_shortest(outcome);
    print_counts(m, &all,
                 m->visits.n == 0             ? "; nothing to do"
                 : done                       ? ""
                 : outcome->end == SCHED_DONE ? "; start the run again"
                                              : "; stopped, resumable");
    if (failed)
        log_info("qtraj status %s says why some failed; repair the input and run again, or --retry "
                 "failed",
                 m->results);
done:
    inventory_close(&all);
    results_view_close(view);
    return st;
}

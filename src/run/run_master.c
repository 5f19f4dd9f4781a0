#include "run/run_master.h"
#include "records/part_files.h"
#include "records/results.h"
#include "records/running.h"
#include "records/saved.h"
#include "run/run_stage.h"
#include "util/clock.h"
#include "util/exit_code.h"
#include "util/log.h"
#include "util/mem.h"
#include "util/quantity.h"
#include <time.h>

void run_master_free(struct run_master *m, int exit_code)
{
    for (int64_t i = 0; m->jobs && i < m->visits.n; i++) {
        free(m->jobs[i].text);
        free(m->jobs[i].name);
    }
    run_stage_end();
    free(m->jobs);
    free(m->losses);
    free(m->shares);
    free(m->argv);
    free(m->delivered.records);
    progress_free(&m->progress);
    plan_visits_free(&m->visits);
    json_decref(m->running);
    run_compose_free(&m->compose);
    run_journal_close(&m->out, exit_code);
    plan_free(&m->plan);
    free(m->results);
    sweep_free(&m->sweep);
    json_decref(m->stale);
}

/* --- during: results into the journal, the cube from time to time --- */

void run_master_start(struct run_master *m)
{
    progress_start(&m->progress, m->visits.to_make);
    m->cube_written = clock_seconds();
    plan_visits_say(&m->visits, "", stderr);
}

enum status run_master_job(const struct plan_visit *v, char **text, struct err *e)
{
    json_auto_t *json = plan_visit_json(v);
    *text = json ? json_dump_whole(json, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    NEED(*text, ERR_NOMEM, "out of memory for the jobs");
    return OK;
}

enum status run_master_take(void *context, const json_t *record, struct err *e)
{
    struct run_master *m = context;
    json_auto_t *whole = NULL;
    PASS(run_compose(&m->compose, &m->out, m->sweep.results, record, &whole, e));
    PASS(run_journal_append(&m->out, whole, e));
    if (!m->single_process) PASS(run_delivered_add(&m->delivered, whole, e));
    if (!m->unsynced) m->unsynced_since = clock_seconds();
    m->unsynced = m->cube_stale = true;
    json_object_del(m->stale, json_text(whole, "key", ""));
    const struct measure *of = measure_find(json_text(whole, "type", ""));
    const bool failed = strcmp(json_text(whole, "status", ""), "failed") == 0;
    for (int k = 0; of && k < MEASURES_N; k++)
        if (measures[k] == of && m->progress.counts[k].total)
            ++*(failed ? &m->waiting[k].failed : &m->waiting[k].done);
    return failed ? progress_fail(&m->progress, whole, e) : OK;
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

/* The third time in a row, its cells fail. */
static enum status give_up(struct run_master *m, struct sched_loss *loss, struct err *e)
{
    AUTO_FREE char *reason = NULL;
    const struct visit *v = &m->visits.visits[loss->job].visit;
    PASS(mem_format(&reason, e,
                    "its ranks were lost %d times in a row in this visit; the last time, %s",
                    RUN_LOSSES_MOST, loss->why));
    PASS(run_lost_ranks_refuse(v, loss, reason, run_master_take, m, e));
    loss->again = false;
    return OK;
}

enum status run_master_lose(void *context, struct sched_loss *loss, struct err *e)
{
    enum status st = OK;
    struct run_master *m = context;
    struct plan_visit *v = &m->visits.visits[loss->job];
    struct sched_job *t = &m->jobs[loss->job];
    json_t *record = NULL;
    char utc[21];
    const int64_t parts = loss->n_parts;
    run_lost_ranks_keep(&m->delivered, &v->visit, loss);
    const bool advanced = loss->kept || loss->n_parts < parts;
    const int64_t count = m->losses[loss->job] = advanced ? 1 : m->losses[loss->job] + 1;
    const bool poisoned = loss->again && count >= RUN_LOSSES_MOST;
    if (poisoned) TRY(give_up(m, loss, e));
    clock_utc(utc);
    record = json_pack("{s:s, s:s, s:I, s:s, s:s}", "type", "loss", "key", v->visit.key, "count",
                       (json_int_t)count, "reason", loss->why, "utc", utc);
    TRY(run_journal_append(&m->out, record, e));
    m->unsynced = true;
    TRY(sync_journal(m, e));
    mem_drop(&t->text);
    TRY(run_master_job(v, &t->text, e));
done:
    loss->text = t->text;
    log_warn("%s after %.0f s in %s%s", loss->why, loss->seconds, t->name,
             poisoned      ? ", for the third time in a row: its cells fail"
             : loss->again ? "; what is missing of it goes to another"
                           : "");
    json_decref(record);
    return st;
}

static double print_progress(void *context, const struct sched_progress *p)
{
    struct run_master *m = context;
    const double now = clock_seconds(), often = 5;
    struct err e = {0};
    if (m->epoch == 0) m->epoch = (double)time(NULL) - now;
    /* What qtraj status tells of (records/running.h). The start of a visit is the same each time,
     * so that the file is only written when something has changed. */
    json_t *list = json_array();
    for (int64_t i = 0; i < p->n; i++) {
        const struct sched_running *one = &p->running[i];
        const time_t start = (time_t)(m->epoch + clock_seconds() - one->seconds);
        struct tm utc;
        char since[21];
        gmtime_r(&start, &utc);
        strftime(since, sizeof since, "%Y-%m-%dT%H:%M:%SZ", &utc);
        json_array_append_new(list,
                              json_pack("{s:s, s:i, s:s, s:s}", "name", one->name ? one->name : "",
                                        "rank", one->rank, "since", since, "what", one->what));
    }
    if (list && !json_equal(list, m->running)) {
        /* That it cannot be written is no error: nothing but status needs it. */
        if (running_write(m->out.path, list, &e) != OK) log_trace("io", "%s", e.text);
        json_decref(m->running);
        m->running = json_incref(list);
    }
    json_decref(list);
    if (now >= m->progress_due) m->progress_due = now + progress_print(&m->progress, p);
    return m->progress_due - now < often ? m->progress_due - now : often;
}

static enum status accept(void *context, const char *result, struct err *e)
{
    json_auto_t *record = NULL;
    PASS(json_read_text("result", result, strlen(result), &record, e));
    return run_master_take(context, record, e);
}

static enum status write_cube(struct run_master *m, struct err *e)
{
    CLEANUP(results_view_close_at) struct results_view *view = NULL;
    double start = clock_seconds();
    PASS(results_view_of_journal(m->out.journal, VIEW_BY_LINE, &view, e));
    PASS(cube_write(m->out.cube, view, m->out.lock, e));
    m->cube_stale = false;
    m->cube_written = clock_seconds();
    m->cube_seconds = m->cube_written - start;
    return OK;
}

/* One fdatasync makes all records durable that arrive within some milliseconds. Writing the cube
 * may take 1 % of the time, and no memory of a visit in this process; it is also written at the
 * end. */
static enum status tick(void *context, struct err *e)
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

const struct sched_sink run_master_sink = {
    .accept = accept, .tick = tick, .finished = run_stage_end_visit, .progress = print_progress};

/* --- after --- */

enum status run_master_view(const struct run_master *m, struct results_view **out, struct err *e)
{
    PASS(results_view_of_journal(m->out.journal, VIEW_STATES, out, e));
    const struct plan_part *part = &m->choice.part;
    if (part->n == 0) return OK;
    return parts_add_records(m->sweep.results, m->out.path, part->disjoint ? part->n : 0,
                             VIEW_STATES, NULL, *out, e);
}

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
    if (outcome->end == SCHED_DONE || outcome->shortest <= 0 || sched_must_end()) return;
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
    AUTO_FREE char *folder = NULL;
    for (int i = 0; recorded_measures[i]; i++)
        if (rows_count(&all->rows[i], -1).by_state[STATE_PENDING]) return OK;
    PASS(plan_states_folder(&m->plan, &folder, e));
    if (folder) saved_remove_all(folder);
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
    CLEANUP(results_view_close_at) struct results_view *view = NULL;
    CLEANUP(inventory_close) struct inventory all = {0};
    const struct plan_part *part = &m->choice.part;
    bool ended;
    PASS(sync_journal(m, e));
    PASS(run_master_view(m, &view, e));
    PASS(plan_inventory(&m->plan, view, &all, e));
    if (part->n) inventory_cut(&all, part->first, part->end);
    bool failed = any_failed(&all);
    const bool done = outcome->end == SCHED_DONE && !has_stale(m, &all, view->stale);
    *code = !done ? EXIT_STOPPED : failed ? EXIT_CELLS_FAILED : EXIT_DONE;
    PASS(run_journal_end(&m->out, done ? "done" : "stopped", *code, &ended, e));
    if (m->cube_stale || ended) PASS(write_cube(m, e));
    for (int k = 0; done && k < MEASURES_N; k++)
        if (measures[k]->ended) PASS(measures[k]->ended(&m->plan, m->out.journal, e));
    if (done) PASS(remove_states(m, &all, e));
    run_journal_finish(&m->out);
    progress_end(&m->progress);
    tell_shortest(outcome);
    print_counts(m, &all,
                 m->visits.n == 0             ? "; nothing to do"
                 : done                       ? ""
                 : outcome->end == SCHED_DONE ? "; start the run again"
                                              : "; stopped, resumable");
    PASS(results_warn_of_stale(view, e));
    if (failed)
        log_info("qtraj status %s says why some failed; repair the input and run again, or --retry "
                 "failed",
                 m->results);
    return OK;
}

/* What a run does before its first visit: it plans, opens the journal, and makes the jobs. */
#include "plan/plan_parts.h"
#include "records/part_files.h"
#include "records/saved.h"
#include "run/owner.h"
#include "run/run_master.h"
#include "run/run_stage.h"
#include "util/log.h"
#include "util/mem.h"

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

/* The command as it was given is part of the cube's provenance. */
static enum status append_plan(struct run_master *m, const struct results_view *v, int argc,
                               char **argv, struct err *e)
{
    const struct plan_part *part = &m->choice.part;
    json_auto_t *record = NULL;
    AUTO_FREE char *command = NULL;
    PASS(mem_string(&command, argv[0], e));
    for (int i = 1; i < argc; i++) {
        char *shorter = command;
        enum status st = mem_format(&command, e, "%s %s", shorter, argv[i]);
        free(shorter);
        PASS(st);
    }
    PASS(plan_record(&m->plan, command, &record, e));
    if (part->n) {
        json_t *json =
            json_pack("{s:I, s:I, s:I, s:I}", "k", (json_int_t)part->k, "n", (json_int_t)part->n,
                      "first", (json_int_t)part->first, "end", (json_int_t)part->end);
        NEED(json && json_object_set_new(record, "part", json) == 0, ERR_NOMEM,
             "out of memory for the plan");
    }
    if (!m->plan.back && plan_known(v->plan, record)) return OK;
    PASS(run_journal_append(&m->out, record, e));
    m->unsynced = m->cube_stale = true;
    return OK;
}

/* How the visits of a model will run. */
struct manner {
    int64_t ranks;      /* that a visit takes */
    double saved_after; /* as in struct sched_job */
};

/* Seconds after which a visit of the model by such ranks saves its state; 0: never. */
static double find_saved_after(const struct run_master *m, int64_t model, const int64_t *variants,
                               const struct plan_rank *rank)
{
    struct memory_plan memory;
    const char *folder = m->sweep.run.checkpoints;
    double after = 0;
    if (folder && strcmp(folder, "off") == 0) return 0;
    if (m->plan.costs.models[model].known &&
        plan_visit_memory(&m->plan, model, variants, m->plan.n_variants, rank, &memory, NULL) == OK)
        after = saved_first_after(rank->ranks * memory.saved);
    return after;
}

/* *out (models) = as many ranks as the sweep says, or the least that the memory needs. Prices the
 * visits as they will run on so many. */
static enum status find_manners(struct run_master *m, struct manner **out, struct err *e)
{
    const struct run_options *o = &m->sweep.run;
    struct plan_rank rank = m->worker;
    AUTO_FREE int64_t *variants = NULL;
    PASS(mem_zero(out, m->sweep.n_models, sizeof **out, "models", e));
    PASS(mem_zero(&variants, m->plan.n_variants, sizeof *variants, "variants", e));
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
    return OK;
}

static enum status make_jobs(struct run_master *m, const struct results_view *view,
                             const struct manner *manners, struct err *e)
{
    PASS(mem_zero(&m->jobs, m->visits.n, sizeof *m->jobs, "jobs", e));
    PASS(mem_zero(&m->losses, m->visits.n, sizeof *m->losses, "jobs", e));
    for (int64_t i = 0; i < m->visits.n; i++) {
        const struct plan_visit *v = &m->visits.visits[i];
        m->jobs[i] =
            (struct sched_job){.id = i,
                               .cost = v->cost,
                               .n_parts = v->n_batches,
                               .parts = v->batches,
                               .kind = v->kind,
                               .files = v->files,
                               .turn = v->turn,
                               .ranks = manners[v->model].ranks,
                               .saved_after = v->n_batches ? manners[v->model].saved_after : 0,
                               .saved = v->saved};
        const int64_t n = json_int(json_object_get(view->losses, v->visit.key), "count");
        m->losses[i] = n < RUN_LOSSES_MOST ? n : 0; /* a poisoned one starts over */
        PASS(mem_string(&m->jobs[i].name, v->name, e));
        if (!m->single_process) PASS(run_master_job(v, &m->jobs[i].text, e));
    }
    return OK;
}

struct taking {
    struct run_journal *out;
    int64_t n;
};

static enum status take_record(void *context, const json_t *record, struct err *e)
{
    struct taking *t = context;
    t->n++;
    return run_journal_append(t->out, record, e);
}

/* What parts have finished and the results lack goes to the journal of a whole run. */
static enum status take_parts(struct run_master *m, struct results_view *view, struct err *e)
{
    AUTO_FREE char *folder = NULL;
    CLEANUP(parts_free) struct part_places parts = {0};
    struct taking t = {.out = &m->out};
    const struct view_sink sink = {.take = take_record, .context = &t};
    PASS(parts_folder(m->results, &folder, e));
    PASS(parts_list(folder, &parts, e));
    if (parts.n) PASS(parts_add_records(m->results, m->out.path, 0, VIEW_STATES, &sink, view, e));
    if (t.n) log_info("%lld results of the parts in %s are taken over", (long long)t.n, folder);
    if (t.n) m->unsynced = m->cube_stale = true;
    return OK;
}

/* Where the results go, and which visits they are of. */
static enum status find_part(struct run_master *m, struct err *e)
{
    const struct plan_part *part = &m->choice.part;
    const char *results = m->sweep.results;
    if (part->n == 0) {
        /* A whole run, which leaves no journal of its own if it is refused. */
        AUTO_FREE char *folder = NULL;
        CLEANUP(parts_free) struct part_places parts = {0};
        PASS(mem_string(&m->results, m->sweep.results, e));
        PASS(parts_folder(m->results, &folder, e));
        PASS(parts_list(folder, &parts, e));
        /* Two runs would compute the same: those of the parts that run now. ERR_LOCKED. */
        for (int64_t i = 0; i < parts.n; i++) {
            const struct part_place *p = &parts.part[i];
            const struct lock_holder h = lock_look(p->journal);
            NEED(!h.held, ERR_LOCKED,
                 "part %lld of %lld of this sweep is running: %s.lock is held by process %lld on "
                 "host %s since %s; wait until the parts have ended, or stop them",
                 (long long)p->k, (long long)p->n, p->journal, (long long)h.pid, h.host, h.utc);
        }
        return OK;
    }
    PASS(plan_part_find(&m->plan, true, &m->choice.part, e));
    PASS(parts_path(results, part->k, part->n, &m->results, e));
    m->plan.results = m->results;
    log_info("part %lld of %lld: %lld of the sweep's visits, into %s%s", (long long)part->k,
             (long long)part->n, (long long)(part->end - part->first), m->results,
             part->end > part->first ? "" : "; there are more parts than visits");
    return OK;
}

enum status run_read_sweep(const char *path, char *const *set, int64_t n, bool so_far,
                           struct sweep *out, struct err *e)
{
    if (!so_far) return sweep_read(path, (const char *const *)set, n, out, e);
    PASS(plan_read_so_far(path, (const char *const *)set, n, out, e));
    NEED(out->n_models > 0, ERR_USAGE, "%s: no checkpoint of the sweep is there yet", path);
    return OK;
}

enum status run_master_prepare(struct run_master *m, int argc, char **argv, struct err *e)
{
    CLEANUP(results_view_close_at) struct results_view *view = NULL;
    AUTO_FREE struct manner *manners = NULL;
    CLEANUP(plan_faults_free) struct plan_faults faults = {0};
    const struct plan_part *part = &m->choice.part;
    bool composed;
    PASS(run_read_sweep(m->sweep_path, m->set, m->n_set, m->so_far, &m->sweep, e));
    PASS(plan_make(&m->sweep, false, &m->plan, e));
    PASS(plan_choice_match(&m->plan, &m->choice, e));
    PASS(find_part(m, e));
    if (!m->adopt) PASS(owner_check(&m->plan, m->results, e));
    if (!m->adopt) PASS(owner_check_weights(&m->plan, e));
    PASS(run_journal_folder(m->results, e));
    PASS(run_journal_open(&m->out, m->results, &m->cube_stale, e));
    PASS(run_master_view(m, &view, e));
    PASS(owner_tell_own(&m->plan, view, m->sweep_path, m->set, m->n_set, e));
    if (part->n == 0) PASS(take_parts(m, view, e));
    PASS(plan_take(&m->plan, view, e));
    m->stale = json_incref((json_t *)(uintptr_t)view->stale);
    PASS(plan_warn_changed(&m->plan, view, e));
    PASS(append_plan(m, view, argc, argv, e));
    PASS(run_compose_whole(&m->compose, &m->plan, &m->out, &composed, e));
    if (composed) m->unsynced = m->cube_stale = true;
    m->plan.costs.rates = m->rates;
    cost_rates_choose(&m->plan.costs.rates, (enum products)m->sweep.run.products);
    PASS(find_manners(m, &manners, e));
    plan_costs_learn(&m->plan, view);
    PASS(plan_visits_make(&m->plan, view, &m->choice, &m->visits, e));
    if (m->visits.n) PASS(plan_warn(&m->plan, &faults, e));
    if (m->visits.n)
        PASS(plan_faults_tokenizers(&faults, &m->plan, &m->visits, e));
    else
        PASS(plan_faults_find(&faults, &m->plan, &m->visits, e));
    plan_faults_log(&faults);
    PASS(plan_visits_begun(&m->plan, &m->visits, e));
    PASS(run_stage_begin(&m->plan, &m->visits, part, e));
    return make_jobs(m, view, manners, e);
}

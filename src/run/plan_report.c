#include "run/plan_report.h"
#include "util/fsx.h"
#include "util/mem.h"
#include "util/quantity.h"
#include <math.h>
#include <stdio.h>

void plan_report_free(struct plan_report *r)
{
    plan_visits_free(&r->remaining);
    free(r->lines);
    free(r->simulations);
    *r = (struct plan_report){0};
}

/* --- making --- */

enum status plan_report_rates(struct plan *p, const char *rate, const char *who, struct err *e)
{
    const char *folder = NULL;
    if (rate) {
        char *end;
        const double gflops = strtod(rate, &end);
        NEED(end != rate && *end == '\0' && gflops > 0 && gflops < 1e9, ERR_USAGE,
             "--rate %s: expected GFLOP/s of %s in single precision", rate, who);
        p->costs.rates = cost_rates_given(gflops);
        return OK;
    }
    for (int64_t i = 0; i < p->n_checkpoints && !folder; i++)
        if (weights_present(&p->checkpoints[i].weights))
            folder = weights_folder(&p->checkpoints[i].weights);
    PASS(cost_rates_measure(folder, &p->costs.rates, e));
    cost_rates_choose(&p->costs.rates, (enum products)p->sweep->run.products);
    return OK;
}

static bool may_scratch(const struct plan *p)
{
    const char *scratch = p->sweep->run.scratch;
    return !scratch || strcmp(scratch, "off") != 0;
}

/* The minimum memory for a visit, to a hundredth; 0: no amount is enough. */
static int64_t least_memory(const struct plan *p, const struct plan_line *l, const int64_t *which,
                            struct plan_rank rank)
{
    struct memory_plan plan;
    int64_t low = 1 << 20, high = memory_bound(l->memory.peak);
    rank.scratch = may_scratch(p);
    while ((double)high > 1.01 * (double)low) {
        rank.memory = low + (high - low) / 2;
        if (plan_visit_memory(p, l->model, which, l->n_variants, &rank, &plan, NULL) == OK)
            high = rank.memory;
        else
            low = rank.memory;
    }
    return high;
}

/* Ranks per visit: what the sweep says, else one, or more if one has too little memory and more
 * helps. Assumes that a group is on one node. */
static int64_t group_of(const struct plan *p, int64_t model, const int64_t *which, int64_t n,
                        const struct plan_rank *rank)
{
    enum { MOST = 1024 };
    struct plan_rank most = *rank;
    if (p->sweep->run.ranks_per_group > 0) return p->sweep->run.ranks_per_group;
    most.ranks = most.mates = MOST;
    int64_t ranks = plan_model_ranks(p, model, which, n, &most);
    return ranks < MOST ? ranks : 1;
}

static void predict_memory(const struct plan *p, const int64_t *which, int64_t threads,
                           int64_t bound, struct plan_line *l)
{
    struct err why = {0};
    struct plan_rank rank = {.threads = threads, .memory = bound, .scratch = may_scratch(p)};
    l->ranks = 1;
    if (!p->costs.models[l->model].known) return;
    l->ranks = rank.ranks = rank.mates = group_of(p, l->model, which, l->n_variants, &rank);
    l->fits = plan_visit_memory(p, l->model, which, l->n_variants, &rank, &l->memory, &why) == OK;
    snprintf(l->why, sizeof l->why, "%s", why.text);
    err_clear(&why);
    rank.memory = 0;
    rank.scratch = false;
    if (!l->fits &&
        plan_visit_memory(p, l->model, which, l->n_variants, &rank, &l->memory, &why) != OK)
        return;
    l->least = least_memory(p, l, which, rank);
    /* While a new state is written, the one before is still there. */
    const char *folder = p->sweep->run.checkpoints;
    if (!folder || strcmp(folder, "off") != 0) l->saved = 2 * l->ranks * l->memory.saved;
}

static void fill_line(struct plan_report *r, const int64_t *which, int64_t n, struct plan_line *l)
{
    const struct plan *p = r->plan;
    l->n_variants = n;
    l->cost = plan_visit_cost(p, l->model, which, n);
    predict_memory(p, which, r->threads, r->memory, l);
    /* Each wave reads the checkpoint again. */
    if (l->memory.waves > 1) l->cost.bytes *= (double)l->memory.waves;
    l->total = cost_seconds(&l->cost, &p->costs.rates, l->seconds);
    if (!p->costs.models[l->model].known) return;
    cost_add(&r->cost, &l->cost, (double)l->visits);
    for (int i = 0; i < COST_PHASE_N; i++) r->seconds[i] += (double)l->visits * l->seconds[i];
    r->total += (double)l->visits * l->total;
}

/* *which = the n applicable variants; the caller frees. */
static enum status find_variants(const struct plan *p, int64_t **which, int64_t *n, struct err *e)
{
    *n = 0;
    PASS(mem_zero(which, p->n_variants, sizeof **which, "variants", e));
    for (int64_t i = 0; i < p->n_variants; i++)
        if (p->variants[i].applicable) (*which)[(*n)++] = i;
    return OK;
}

enum status plan_report_ranks(const struct plan *p, int64_t model, int64_t threads, int64_t memory,
                              int64_t *ranks, struct err *e)
{
    enum { MOST = 1024 };
    const struct plan_rank most = {
        .threads = threads, .memory = memory, .scratch = may_scratch(p), .ranks = MOST, .mates = 1};
    AUTO_FREE int64_t *which = NULL;
    int64_t n;
    PASS(find_variants(p, &which, &n, e));
    *ranks = plan_model_ranks(p, model, which, n, &most);
    if (*ranks >= MOST) *ranks = 1; /* no number is enough, as the visit will say */
    return OK;
}

enum status plan_report_fit(struct plan *p, int64_t threads, int64_t memory, struct err *e)
{
    AUTO_FREE int64_t *which = NULL;
    int64_t n;
    PASS(find_variants(p, &which, &n, e));
    for (int64_t i = 0; i < p->sweep->n_models; i++) {
        struct plan_rank rank = {.threads = threads, .memory = memory, .scratch = may_scratch(p)};
        rank.ranks = rank.mates = group_of(p, i, which, n, &rank);
        plan_costs_fit(p, i, &rank);
    }
    return OK;
}

enum status plan_report_make(const struct plan *p, const struct results_view *view, int64_t threads,
                             int64_t memory, const struct plan_choice *choice,
                             struct plan_report *out, struct err *e)
{
    CLEANUP(plan_report_free)
    struct plan_report r = {.plan = p, .threads = threads, .memory = memory};
    const struct plan_part *part = &choice->part;
    AUTO_FREE int64_t *which = NULL;
    int64_t n;
    PASS(mem_zero(&r.lines, p->sweep->n_models, sizeof *r.lines, "models", e));
    PASS(find_variants(p, &which, &n, e));
    for (int64_t i = 0; i < p->sweep->n_models; i++) {
        int64_t visits = 0; /* the model's checkpoints, of a part those that it has */
        for (int64_t k = 0; k < p->n_checkpoints; k++)
            visits += p->checkpoints[k].model == i &&
                      (part->n == 0 || (k >= part->first && k < part->end));
        if (visits == 0 && part->n) continue;
        r.lines[r.n] = (struct plan_line){.model = i, .visits = visits};
        fill_line(&r, which, n, &r.lines[r.n++]);
    }
    PASS(plan_visits_make(p, view, choice, &r.remaining, e));
    for (int k = 0; k < MEASURES_N; k++)
        if (measures[k]->disk) PASS(measures[k]->disk(p, &r.to_write[k], &r.disk[k], e));
    *out = r;
    r = (struct plan_report){0};
    return OK;
}

static enum status check_disk(const struct plan_report *r, struct plan_faults *f, struct err *e)
{
    char has[QUANTITY], needs[QUANTITY], *folder;
    /* Bytes of the records of what is left in the journal, and of the cube of everything, by rule
     * of thumb (docs/questions.md): for each cell and checkpoint 8 a sequence and 60 a linear, in
     * the journal twice that; a cube is written beside the one before. */
    enum { SEQUENCE = 8, LINEAR = 60, EMPTY = 300000 };
    const struct plan *p = r->plan;
    double left = 0, whole = EMPTY;
    for (int64_t i = 0; i < r->remaining.n; i++) {
        const struct plan_visit *v = &r->remaining.visits[i];
        const double linears = 7 * (double)p->costs.models[v->model].sizes.shape.layers;
        left += (double)(1 + v->visit.n_variants) *
                (SEQUENCE * (double)p->costs.evaluation.sequences + LINEAR * linears);
    }
    whole += left;
    const double bytes = whole + 2 * left;
    if (r->remaining.n == 0) return OK;
    PASS(fsx_parent(r->plan->results, &folder, e));
    const int64_t room = folder_free_bytes(folder);
    free(folder);
    if (room < 0 || (double)room >= bytes) return OK;
    quantity_prefix((double)room, has);
    quantity_prefix(bytes, needs);
    return plan_faults_add(f, r->plan, e,
                           "results: %sB are free on the disk of %s, but cube and journal need "
                           "about %sB",
                           has, r->plan->results, needs);
}

enum status plan_report_faults(const struct plan_report *r, bool memory, struct plan_faults *f,
                               struct err *e)
{
    for (int64_t i = 0; i < r->n && memory; i++) {
        const struct plan_line *l = &r->lines[i];
        if (r->plan->costs.models[l->model].known && !l->fits)
            PASS(plan_faults_add_model(f, r->plan, l->model, true, e, "its visits will fail: %s",
                                       l->why));
    }
    PASS(check_disk(r, f, e));
    return plan_faults_find(f, r->plan, &r->remaining, e);
}

/* Whether a run makes that record. */
static bool is_left(const struct plan_visits *left, const char *key)
{
    bool found = false;
    for (int64_t i = 0; i < left->n && !found; i++) {
        const struct visit *v = &left->visits[i].visit;
        found = strcmp(v->key, key) == 0 || (v->records && strstr(v->records, key));
        for (int64_t k = 0; k < v->n_variants && !found; k++)
            found = strcmp(v->variants[k].key, key) == 0 ||
                    (v->variants[k].records && strstr(v->variants[k].records, key));
        for (int k = 0; k < MEASURES_N && !found; k++)
            found = v->record_key[k] && strcmp(v->record_key[k], key) == 0;
    }
    return found;
}

enum status plan_report_failed(const struct plan_report *r, const struct inventory *all,
                               struct plan_faults *f, struct err *e)
{
    for (int k = 0; recorded_measures[k]; k++) {
        const struct measure *m = recorded_measures[k];
        const struct rows *rows = &all->rows[k];
        int64_t n = 0;
        if (m->report == REPORT_NONE) continue;
        for (int64_t i = 0; i < rows->n; i = rows_next(rows, i))
            n += row_state(rows, &rows->rows[i], NULL) == STATE_FAILED &&
                 !is_left(&r->remaining, rows->rows[i].key);
        if (n)
            PASS(plan_faults_add(f, r->plan, e,
                                 "%s%s%s%s: %lld failed, as qtraj status %s says, and a run tries "
                                 "them again with --retry failed, or when an input file has "
                                 "changed or the limit of memory was raised",
                                 m->prefix, m->noun, m->part ? " of " : "", m->part ? m->part : "",
                                 (long long)n, r->plan->results));
    }
    return OK;
}

/* --- simulations --- */

/* Ranks of a group divide tokens, Hessians and rows, and wait for each other: twice as many are
 * assumed to be this share of twice as fast. */
static const double doubling_efficiency = 0.95;

double plan_report_efficiency(int64_t ranks)
{
    return pow(doubling_efficiency, log2((double)ranks));
}

enum status plan_report_simulate(struct plan_report *r, const char *nodes, int64_t group,
                                 struct err *e)
{
    AUTO_FREE struct sched_job *jobs = NULL;
    const struct plan_visits *v = &r->remaining;
    int64_t capacity = 0;
    const double speed = (double)group * plan_report_efficiency(group);
    r->group = group;
    PASS(mem_zero(&jobs, v->n, sizeof *jobs, "jobs", e));
    for (int64_t i = 0; i < v->n; i++)
        jobs[i] = (struct sched_job){.cost = v->visits[i].cost,
                                     .n_parts = v->visits[i].n_batches,
                                     .parts = v->visits[i].batches,
                                     .kind = v->visits[i].kind,
                                     .files = 1 + i};
    for (const char *p = nodes; *p;) {
        char *end;
        long n = strtol(p, &end, 10);
        NEED(end != p && (*end == ',' || *end == '\0') && n >= group && n <= 1000000, ERR_USAGE,
             "--simulate %s: expected numbers of nodes from %lld (--group) to 1000000, such as "
             "16,64,256",
             nodes, (long long)group);
        PASS(mem_grow(&r->simulations, r->n_simulations, &capacity, sizeof *r->simulations, e));
        struct sched_simulation *s = &r->simulations[r->n_simulations];
        PASS(sched_simulate(jobs, r->remaining.n, n / group, s, e));
        s->makespan /= speed; /* the schedule is the same at any speed */
        s->work /= speed;
        s->least /= speed;
        r->n_simulations++;
        p = *end == ',' ? end + 1 : end;
    }
    return OK;
}

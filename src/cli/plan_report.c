#include "cli/plan_report.h"
#include "report/text_table.h"
#include "saved/saved.h"
#include "util/mem.h"
#include "util/quantity.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void plan_report_free(struct plan_report *r)
{
    plan_visits_free(&r->remaining);
    free(r->lines);
    free(r->simulations);
    *r = (struct plan_report){0};
}

/* --- making --- */

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
        struct err none = {0};
        rank.memory = low + (high - low) / 2;
        if (plan_visit_memory(p, l->model, which, l->n_variants, &rank, &plan, &none) == OK)
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

/* The model's checkpoints, of a part those that it has. */
static int64_t count_visits(const struct plan *p, int64_t model, const struct plan_part *part)
{
    int64_t n = 0;
    for (int64_t i = 0; i < p->n_checkpoints; i++)
        n += p->checkpoints[i].model == model &&
             (part->n == 0 || (i >= part->first && i < part->end));
    return n;
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
    int64_t *which, n;
    PASS(find_variants(p, &which, &n, e));
    *ranks = plan_model_ranks(p, model, which, n, &most);
    if (*ranks >= MOST) *ranks = 1; /* no number is enough, as the visit will say */
    free(which);
    return OK;
}

enum status plan_report_fit(struct plan *p, int64_t threads, int64_t memory, struct err *e)
{
    int64_t *which, n;
    PASS(find_variants(p, &which, &n, e));
    for (int64_t i = 0; i < p->sweep->n_models; i++) {
        struct plan_rank rank = {.threads = threads, .memory = memory, .scratch = may_scratch(p)};
        rank.ranks = rank.mates = group_of(p, i, which, n, &rank);
        plan_costs_fit(p, i, &rank);
    }
    free(which);
    return OK;
}

enum status plan_report_make(const struct plan *p, const struct results_view *view, int64_t threads,
                             int64_t memory, const struct plan_choice *choice,
                             struct plan_report *out, struct err *e)
{
    enum status st = OK;
    struct plan_report r = {.plan = p, .threads = threads, .memory = memory};
    int64_t *which = NULL, n;
    TRY(mem_zero(&r.lines, p->sweep->n_models, sizeof *r.lines, "models", e));
    TRY(find_variants(p, &which, &n, e));
    for (int64_t i = 0; i < p->sweep->n_models; i++) {
        const int64_t visits = count_visits(p, i, &choice->part);
        if (visits == 0 && choice->part.n) continue;
        r.lines[r.n] = (struct plan_line){.model = i, .visits = visits};
        fill_line(&r, which, n, &r.lines[r.n++]);
    }
    TRY(plan_visits_make(p, view, choice, &r.remaining, e));
    TRY(plan_exports_left(p, &r.exports, e));
    *out = r;
    r = (struct plan_report){0};
done:
    free(which);
    plan_report_free(&r);
    return st;
}

/* --- simulations --- */

/* Ranks of a group divide tokens, Hessians and rows, and wait for each other: twice as many are
 * assumed to be this share of twice as fast. */
static const double doubling_efficiency = 0.95;

double plan_report_efficiency(int64_t ranks)
{
    return pow(doubling_efficiency, log2((double)ranks));
}

static void scale_parts(const struct plan_visits *v, double by)
{
    for (int64_t i = 0; i < v->n; i++)
        for (int64_t j = 0; j < v->visits[i].n_pieces; j++) v->visits[i].pieces[j] *= by;
}

static enum status tasks_of(const struct plan_visits *v, double speed, struct sched_task **out,
                            struct err *e)
{
    struct sched_task *tasks = NULL;
    PASS(mem_zero(&tasks, v->n, sizeof *tasks, "tasks", e));
    for (int64_t i = 0; i < v->n; i++)
        tasks[i] = (struct sched_task){.cost = v->visits[i].cost / speed,
                                       .n_parts = v->visits[i].n_pieces,
                                       .parts = v->visits[i].pieces,
                                       .kind = v->visits[i].kind,
                                       .files = 1 + i};
    *out = tasks;
    return OK;
}

enum status plan_report_simulate(struct plan_report *r, const char *nodes, int64_t group,
                                 struct err *e)
{
    enum status st = OK;
    struct sched_task *tasks = NULL;
    int64_t capacity = 0;
    double speed = (double)group * plan_report_efficiency(group);
    r->group = group;
    TRY(tasks_of(&r->remaining, speed, &tasks, e));
    scale_parts(&r->remaining, 1 / speed);
    for (const char *p = nodes; *p;) {
        char *end;
        long n = strtol(p, &end, 10);
        ENSURE(end != p && (*end == ',' || *end == '\0') && n >= group && n <= 1000000, ERR_USAGE,
               "--simulate %s: expected numbers of nodes from %lld (--group) to 1000000, such as "
               "16,64,256",
               nodes, (long long)group);
        TRY(mem_grow(&r->simulations, r->n_simulations, &capacity, sizeof *r->simulations, e));
        TRY(sched_simulate(tasks, r->remaining.n, n / group, &r->simulations[r->n_simulations], e));
        r->n_simulations++;
        p = *end == ',' ? end + 1 : end;
    }
done:
    if (tasks) scale_parts(&r->remaining, speed);
    free(tasks);
    return st;
}

/* --- for machines --- */

static json_t *phases_json(const double *values)
{
    json_t *json = json_object();
    for (int i = 0; i < COST_PHASE_N; i++)
        json_object_set_new(json, cost_phase_name((enum cost_phase)i), json_real(values[i]));
    return json;
}

static json_t *memory_json(const struct plan_line *l)
{
    json_t *parts = json_object();
    for (int i = 0; i < MEMORY_PART_N; i++)
        json_object_set_new(parts, memory_part_name((enum memory_part)i),
                            json_integer(l->memory.part[i]));
    return json_pack("{s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:s, s:o}", "fits", l->fits, "ranks",
                     (json_int_t)l->ranks, "peak", (json_int_t)l->memory.peak, "curvature",
                     (json_int_t)l->memory.after, "least", (json_int_t)l->least, "scratch",
                     (json_int_t)l->memory.scratch, "saved", (json_int_t)l->saved, "waves",
                     (json_int_t)l->memory.waves, "message", l->why, "parts", parts);
}

static json_t *line_json(const struct plan *p, const struct plan_line *l)
{
    const struct plan_model *m = &p->costs.models[l->model];
    return json_pack("{s:s, s:b, s:I, s:I, s:I, s:f, s:o, s:o, s:f, s:o}", "model",
                     p->sweep->models[l->model].name, "known", m->known, "visits",
                     (json_int_t)l->visits, "variants", (json_int_t)l->n_variants, "parameters",
                     (json_int_t)m->sizes.shape.parameters, "bytes", l->cost.bytes, "flop",
                     phases_json(l->cost.flop), "seconds_by_phase", phases_json(l->seconds),
                     "seconds", l->total, "memory", memory_json(l));
}

static json_t *tokens_json(const struct cost_tokens *t)
{
    return json_pack("{s:f, s:I, s:b}", "tokens", t->tokens, "sequences", (json_int_t)t->sequences,
                     "guessed", t->guessed);
}

/* Of the models whose costs are known. */
static double remaining_seconds(const struct plan *p, const struct plan_visits *v)
{
    double sum = 0;
    for (int64_t i = 0; i < v->n; i++) {
        if (!p->costs.models[v->visits[i].model].known) continue;
        sum += v->visits[i].cost;
        for (int64_t j = 0; j < v->visits[i].n_pieces; j++) sum += v->visits[i].pieces[j];
    }
    return sum;
}

json_t *plan_report_json(const struct plan_report *r)
{
    const struct plan_costs *c = &r->plan->costs;
    json_t *models = json_array(), *simulations = json_array();
    for (int64_t i = 0; i < r->n; i++)
        json_array_append_new(models, line_json(r->plan, &r->lines[i]));
    for (int64_t i = 0; i < r->n_simulations; i++) {
        const struct sched_simulation *s = &r->simulations[i];
        json_array_append_new(simulations,
                              json_pack("{s:I, s:I, s:f, s:f, s:I, s:f}", "nodes",
                                        (json_int_t)(s->n_groups * r->group), "group",
                                        (json_int_t)r->group, "seconds", s->makespan, "idle",
                                        s->idle, "pieces", (json_int_t)s->pieces, "repeated",
                                        s->least > 0 ? s->work / s->least - 1 : 0.0));
    }
    return json_pack(
        "{s:{s:s, s:f, s:f, s:f, s:f, s:f, s:I, s:I, s:o}, s:o, s:o, s:o, s:o, s:I, s:I, s:o, s:f, "
        "s:o, "
        "s:o, s:f, "
        "s:f, s:o, s:I, s:f}",
        "rates", "from", r->rates_from, "sgemm", c->rates.sgemm, "dgemm", c->rates.dgemm, "forward",
        c->rates.forward, "gram", c->rates.gram, "read", c->rates.read, "threads",
        (json_int_t)r->threads, "corrected_by", (json_int_t)c->learned, "correction",
        phases_json(c->rates.correction), "evaluation", tokens_json(&c->evaluation), "tasks",
        tokens_json(&c->tasks), "calibration", tokens_json(&c->calibration), "curvature",
        tokens_json(&c->curvature), "memory", (json_int_t)r->memory, "visits_left",
        (json_int_t)r->remaining.n, "models", models, "bytes", r->cost.bytes, "flop",
        phases_json(r->cost.flop), "seconds_by_phase", phases_json(r->seconds), "seconds", r->total,
        "seconds_left", remaining_seconds(r->plan, &r->remaining), "simulations", simulations,
        "exports_left", (json_int_t)r->exports.n, "export_bytes", r->exports.bytes);
}

/* --- for people --- */

static void print_tokens(FILE *out, const char *between, const char *name,
                         const struct cost_tokens *t)
{
    if (t->sequences)
        fprintf(out, "%s%s %.0f token%s in %lld sequence%s%s", between, name, t->tokens,
                quantity_plural((int64_t)t->tokens), (long long)t->sequences,
                quantity_plural(t->sequences), t->guessed ? " (guessed)" : "");
}

static void print_machine(const struct plan_report *r, FILE *out)
{
    const struct plan_costs *c = &r->plan->costs;
    const enum products kind = (enum products)r->plan->sweep->run.products;
    fprintf(out, "rates of a worker: sgemm %.4g GFLOP/s, dgemm %.4g GFLOP/s, ",
            c->rates.sgemm / 1e9, c->rates.dgemm / 1e9);
    if (kind != PRODUCTS_F32)
        fprintf(out, "forward products (%s%s) %.4g GFLOP/s, ",
                kind == PRODUCTS_AUTO ? "auto: " : "", products_words[products_resolve(kind)],
                c->rates.forward / 1e9);
    fprintf(out, "read %.3g GB/s; %s", c->rates.read / 1e9, r->rates_from);
    if (c->learned)
        fprintf(out, ", corrected by %lld finished record%s", (long long)c->learned,
                quantity_plural(c->learned));
    print_tokens(out, "\ntexts: ", "evaluation", &c->evaluation_texts);
    print_tokens(out, "; ", "tasks", &c->tasks);
    print_tokens(out, "; ", "calibration", &c->calibration);
    print_tokens(out, "; ", "curvature", &c->curvature);
    fprintf(out, "\na rank: ");
    if (r->memory) fprintf(out, "%.4g GiB, ", (double)r->memory / (1 << 30));
    fprintf(out, "%lld thread%s\n", (long long)r->threads, quantity_plural(r->threads));
}

/* Columns of the table of models: phases, which are those of the costs, stand between. */
enum { MODEL, VISITS, PARAMETERS, READ, PHASES };
enum { TIME = PHASES + COST_PHASE_N, MEMORY, LEAST, PLAN_COLUMNS };

static enum status put_plan_head(const struct plan_report *r, struct table *t, struct err *e)
{
    static const char *const names[PLAN_COLUMNS] = {
        [MODEL] = "model", [VISITS] = "visits", [PARAMETERS] = "params", [READ] = "read",
        [TIME] = "time",   [MEMORY] = "memory", [LEAST] = "least"};
    PASS(table_add_row(t, e));
    t->align_left[MODEL] = true;
    for (int k = 0; k < PLAN_COLUMNS; k++)
        if (names[k]) PASS(table_set(t, k, e, "%s", names[k]));
    for (int i = COST_READ + 1; i < COST_PHASE_N; i++) {
        bool any = false;
        for (int64_t l = 0; l < r->n; l++) any = any || r->lines[l].cost.flop[i] > 0;
        if (any) PASS(table_set(t, PHASES + i, e, "%s", cost_phase_name((enum cost_phase)i)));
    }
    return OK;
}

static enum status put_model(const struct plan *p, const struct plan_line *l, struct table *t,
                             struct err *e)
{
    const struct plan_model *m = &p->costs.models[l->model];
    const double gib = 1 << 30;
    char text[QUANTITY];
    PASS(table_add_row(t, e));
    PASS(table_set(t, MODEL, e, "%s", p->sweep->models[l->model].name));
    PASS(table_set(t, VISITS, e, "%lld", (long long)l->visits));
    if (!m->known) return OK;
    quantity_count((double)m->sizes.shape.parameters, text);
    PASS(table_set(t, PARAMETERS, e, "%s", text));
    quantity_prefix(l->cost.bytes, text);
    PASS(table_set(t, READ, e, "%sB", text));
    for (int i = COST_READ + 1; i < COST_PHASE_N; i++) {
        if (!(l->cost.flop[i] > 0)) continue;
        quantity_prefix(l->cost.flop[i], text);
        PASS(table_set(t, PHASES + i, e, "%s", text));
    }
    quantity_time(l->total, text);
    PASS(table_set(t, TIME, e, "%s", text));
    PASS(table_set(t, MEMORY, e, "%.3g GiB", (double)l->memory.peak / gib));
    return table_set(t, LEAST, e, "%.3g GiB", (double)l->least / gib);
}

static const char *first_folder(const struct plan *p, int64_t model)
{
    for (int64_t i = 0; i < p->n_checkpoints; i++)
        if (p->checkpoints[i].model == model) return weights_folder(&p->checkpoints[i].weights);
    return "?";
}

/* What else there is to say of a model's visits. */
static void print_remarks(const struct plan *p, const struct plan_line *l, FILE *out)
{
    const double gib = 1 << 30;
    const char *name = p->sweep->models[l->model].name;
    if (!p->costs.models[l->model].known) {
        fprintf(
            out,
            "%s: no config.json in %s, in its other checkpoints or in the folder above: its cost "
            "is unknown\n",
            name, first_folder(p, l->model));
        return;
    }
    if (l->ranks > 1) fprintf(out, "%s: in groups of %lld ranks\n", name, (long long)l->ranks);
    if (l->memory.waves > 1) fprintf(out, "%s: in %lld waves\n", name, (long long)l->memory.waves);
    if (l->memory.scratch)
        fprintf(out, "%s: %.3g GiB on scratch\n", name, (double)l->memory.scratch / gib);
    if (l->saved && l->total >= saved_first_after(l->saved / 2))
        fprintf(out, "%s: up to %.3g GiB of disk for the saved state of a visit\n", name,
                (double)l->saved / gib);
    if (l->memory.after == l->memory.peak) fprintf(out, "%s: most memory for curvature\n", name);
    if (!l->fits) fprintf(out, "%s: does not fit%s%s\n", name, l->why[0] ? ": " : "", l->why);
}

static enum status print_models(const struct plan_report *r, FILE *out, struct err *e)
{
    enum status st = OK;
    struct table t = {0};
    TRY(table_init(&t, PLAN_COLUMNS, 1, e));
    TRY(put_plan_head(r, &t, e));
    for (int64_t i = 0; i < r->n; i++) TRY(put_model(r->plan, &r->lines[i], &t, e));
    fprintf(out, "a visit: what it reads, FLOP by phase, time and memory on one worker; least: the "
                 "lowest limit (run.memory_per_rank) that is enough, with its reserve\n");
    TRY(table_print(&t, table_page_width(stdout), out, e));
    for (int64_t i = 0; i < r->n; i++) print_remarks(r->plan, &r->lines[i], out);
done:
    table_free(&t);
    return st;
}

/* Work, bytes and time of the checkpoints' visits, phases of less than half a percent of it left
 * out. What is left includes the points of surfaces. */
static void print_total(const struct plan_report *r, FILE *out)
{
    char time[QUANTITY], left[QUANTITY];
    double sum = 0;
    int64_t known = 0;
    for (int64_t i = 0; i < r->n; i++) known += r->plan->costs.models[r->lines[i].model].known;
    if (known == 0) {
        fprintf(out, "left: %lld visit%s of unknown cost\n", (long long)r->remaining.n,
                quantity_plural(r->remaining.n));
        return;
    }
    quantity_time(r->total, time);
    quantity_time(remaining_seconds(r->plan, &r->remaining), left);
    for (int i = 0; i < COST_PHASE_N; i++) sum += r->seconds[i];
    fprintf(out, "all%s%s: %.4g TFLOP, %.4g GB read, %s on one worker",
            r->plan->sweep->n_surfaces ? " but the points of surfaces" : "",
            known < r->n ? " but the models of unknown cost" : "", cost_flop(&r->cost) / 1e12,
            r->cost.bytes / 1e9, time);
    const char *between = " (";
    for (int i = 0; i < COST_PHASE_N; i++) {
        if (!(r->seconds[i] >= 0.005 * sum) || sum == 0) continue;
        fprintf(out, "%s%s %.0f %%", between, cost_phase_name((enum cost_phase)i),
                100 * r->seconds[i] / sum);
        between = ", ";
    }
    fprintf(out, "%s; left: %lld visit%s, %s\n", between[0] == ',' ? ")" : "",
            (long long)r->remaining.n, quantity_plural(r->remaining.n), left);
}

static void print_exports(const struct plan_report *r, FILE *out)
{
    if (r->exports.n)
        fprintf(out, "export: %lld model%s to write, %.4g GB of disk\n", (long long)r->exports.n,
                quantity_plural(r->exports.n), r->exports.bytes / 1e9);
}

static void print_simulations(const struct plan_report *r, FILE *out)
{
    if (r->n_simulations)
        fprintf(out, "%8s %12s %8s %8s %10s\n", "nodes", "time", "idle", "pieces", "repeated");
    for (int64_t i = 0; i < r->n_simulations; i++) {
        const struct sched_simulation *s = &r->simulations[i];
        char time[QUANTITY];
        quantity_time(s->makespan, time);
        fprintf(out, "%8lld %12s %6.1f %% %8lld %8.1f %%\n", (long long)(s->n_groups * r->group),
                time, 100 * s->idle, (long long)s->pieces,
                s->least > 0 ? 100 * fmax(s->work / s->least - 1, 0) : 0);
    }
}

enum status plan_report_print(const struct plan_report *r, FILE *out, struct err *e)
{
    print_machine(r, out);
    PASS(print_models(r, out, e));
    print_total(r, out);
    print_exports(r, out);
    print_simulations(r, out);
    return OK;
}

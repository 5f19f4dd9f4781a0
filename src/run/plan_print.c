/* What `qtraj plan` prints of a plan_report. */
#include "cube/text_table.h"
#include "records/saved.h"
#include "run/plan_report.h"
#include "util/quantity.h"
#include <math.h>
#include <stdio.h>

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

/* The tokens of measure k, and of which text they are, if it is on one. */
static json_t *own_json(const struct plan *p, int k)
{
    json_t *json = tokens_json(&p->costs.own[k]);
    const struct data_options d =
        measures[k]->text ? measures[k]->text(p, 0) : (struct data_options){0};
    if (d.name) json_object_set_new(json, "text", json_string(d.name));
    return json;
}

/* Of the models whose costs are known. */
static double remaining_seconds(const struct plan *p, const struct plan_visits *v)
{
    double sum = 0;
    for (int64_t i = 0; i < v->n; i++)
        if (p->costs.models[v->visits[i].model].known) sum += plan_visit_seconds(&v->visits[i]);
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
                                        s->idle, "batches", (json_int_t)s->batches, "repeated",
                                        s->least > 0 ? s->work / s->least - 1 : 0.0));
    }
    json_t *json = json_pack(
        "{s:{s:s, s:f, s:f, s:f, s:f, s:f, s:I, s:I, s:o}, s:o, s:o, s:I, s:I, s:o, s:f, "
        "s:o, "
        "s:o, s:f, "
        "s:f, s:o}",
        "rates", "from", r->rates_from, "sgemm", c->rates.sgemm, "dgemm", c->rates.dgemm, "forward",
        c->rates.forward, "gram", c->rates.gram, "read", c->rates.read, "threads",
        (json_int_t)r->threads, "corrected_by", (json_int_t)c->learned, "correction",
        phases_json(c->rates.correction), "evaluation", tokens_json(&c->evaluation), "calibration",
        tokens_json(&c->calibration), "memory", (json_int_t)r->memory, "visits_left",
        (json_int_t)r->remaining.n, "models", models, "bytes", r->cost.bytes, "flop",
        phases_json(r->cost.flop), "seconds_by_phase", phases_json(r->seconds), "seconds", r->total,
        "seconds_left", remaining_seconds(r->plan, &r->remaining), "simulations", simulations);
    for (int k = 0; k < MEASURES_N; k++) {
        char left[64], bytes[64];
        snprintf(left, sizeof left, "%ss_left", measures[k]->name);
        snprintf(bytes, sizeof bytes, "%s_bytes", measures[k]->name);
        if (measures[k]->text_name)
            json_object_set_new(json, measures[k]->text_name, own_json(r->plan, k));
        if (!measures[k]->disk) continue;
        json_object_set_new(json, left, json_integer((json_int_t)r->to_write[k]));
        json_object_set_new(json, bytes, json_real(r->disk[k]));
    }
    return json;
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
    char sgemm[QUANTITY], dgemm[QUANTITY], forward[QUANTITY], read[QUANTITY];
    quantity_plain(c->rates.sgemm / 1e9, 4, sgemm);
    quantity_plain(c->rates.dgemm / 1e9, 4, dgemm);
    quantity_plain(c->rates.forward / 1e9, 4, forward);
    quantity_plain(c->rates.read / 1e9, 3, read);
    fprintf(out, "rates of a worker: sgemm %s GFLOP/s, dgemm %s GFLOP/s, ", sgemm, dgemm);
    if (kind != PRODUCTS_F32)
        fprintf(out, "forward products (%s%s) %s GFLOP/s, ", kind == PRODUCTS_AUTO ? "auto: " : "",
                products_words[products_resolve(kind)], forward);
    fprintf(out, "read %s GB/s; %s", read, r->rates_from);
    if (c->learned)
        fprintf(out, ", corrected by %lld finished record%s", (long long)c->learned,
                quantity_plural(c->learned));
    print_tokens(out, "\ntexts: ", "evaluation", &c->evaluation_texts);
    for (int k = 0; k < MEASURES_N; k++)
        if (measures[k]->tokens) print_tokens(out, "; ", measures[k]->text_name, &c->own[k]);
    print_tokens(out, "; ", "calibration", &c->calibration);
    for (int k = 0; k < MEASURES_N; k++)
        if (measures[k]->text && measures[k]->text_name) { /* may be one of the evaluation texts */
            const char *text = measures[k]->text(r->plan, 0).name;
            char name[200];
            snprintf(name, sizeof name, "%s of %s", measures[k]->text_name,
                     text ? text : "its text");
            print_tokens(out, "; ", name, &c->own[k]);
        }
    fprintf(out, "\na rank: ");
    if (r->memory) fprintf(out, "%.4g GiB, ", (double)r->memory / (1 << 30));
    fprintf(out, "%lld thread%s\n", (long long)r->threads, quantity_plural(r->threads));
}

/* Columns of the table of models: phases, which are those of the costs, stand between. */
enum { MODEL, VISITS, PARAMETERS, READ, PHASES };
enum { TIME = PHASES + COST_PHASE_N, MEMORY, LEAST, PLAN_COLUMNS };

static void put_model(const struct plan *p, const struct plan_line *l, struct table *t)
{
    const struct plan_model *m = &p->costs.models[l->model];
    const double gib = 1 << 30;
    char text[QUANTITY];
    table_add_row(t);
    table_set(t, MODEL, "%s", p->sweep->models[l->model].name);
    table_set(t, VISITS, "%lld", (long long)l->visits);
    if (!m->known) return;
    quantity_count((double)m->sizes.shape.parameters, text);
    table_set(t, PARAMETERS, "%s", text);
    quantity_prefix(l->cost.bytes, text);
    table_set(t, READ, "%sB", text);
    for (int i = COST_READ + 1; i < COST_PHASE_N; i++) {
        if (!(l->cost.flop[i] > 0)) continue;
        quantity_prefix(l->cost.flop[i], text);
        table_set(t, PHASES + i, "%s", text);
    }
    quantity_time(l->total, text);
    table_set(t, TIME, "%s", text);
    table_set(t, MEMORY, "%.3g GiB", (double)l->memory.peak / gib);
    table_set(t, LEAST, "%.3g GiB", (double)l->least / gib);
}

/* What else there is to say of a model's visits. */
static void print_remarks(const struct plan *p, const struct plan_line *l, FILE *out)
{
    const double gib = 1 << 30;
    const char *name = p->sweep->models[l->model].name;
    if (!p->costs.models[l->model].known) {
        int64_t i = 0;
        while (i + 1 < p->n_checkpoints && p->checkpoints[i].model != l->model) i++;
        fprintf(
            out,
            "%s: no config.json in %s, in its other checkpoints or in the folder above: its cost "
            "is unknown\n",
            name, p->n_checkpoints ? weights_folder(&p->checkpoints[i].weights) : "?");
        return;
    }
    if (l->ranks > 1) fprintf(out, "%s: in groups of %lld ranks\n", name, (long long)l->ranks);
    if (l->memory.waves > 1) fprintf(out, "%s: in %lld waves\n", name, (long long)l->memory.waves);
    if (l->memory.scratch)
        fprintf(out, "%s: %.3g GiB on scratch\n", name, (double)l->memory.scratch / gib);
    if (l->saved && l->total >= saved_first_after(l->saved / 2))
        fprintf(out, "%s: up to %.3g GiB of disk for the saved state of a visit\n", name,
                (double)l->saved / gib);
    if (!l->fits) fprintf(out, "%s: does not fit%s%s\n", name, l->why[0] ? ": " : "", l->why);
}

static enum status print_models(const struct plan_report *r, FILE *out, struct err *e)
{
    CLEANUP(table_free)
    struct table t = {.columns = PLAN_COLUMNS, .left = 1, .align_left = {[MODEL] = true}};
    static const char *const names[PLAN_COLUMNS] = {
        [MODEL] = "model", [VISITS] = "visits", [PARAMETERS] = "params", [READ] = "read",
        [TIME] = "time",   [MEMORY] = "memory", [LEAST] = "least"};
    table_add_texts(&t, names);
    for (int i = COST_READ + 1; i < COST_PHASE_N; i++) {
        bool any = false;
        for (int64_t l = 0; l < r->n; l++) any = any || r->lines[l].cost.flop[i] > 0;
        if (any) table_set(&t, PHASES + i, "%s", cost_phase_name((enum cost_phase)i));
    }
    for (int64_t i = 0; i < r->n; i++) put_model(r->plan, &r->lines[i], &t);
    fprintf(out, "a visit, on average: what it reads, FLOP by phase, time and memory on one "
                 "worker; least: the "
                 "lowest limit (run.memory_per_rank) that is enough, with its reserve\n");
    PASS(table_print(&t, table_page_width(stdout), out, e));
    for (int64_t i = 0; i < r->n; i++) print_remarks(r->plan, &r->lines[i], out);
    /* Models of which curvature takes more memory than their cells. */
    int64_t n = 0, last = 0;
    for (int64_t i = 0; i < r->n; i++) {
        const struct plan_line *l = &r->lines[i];
        if (!r->plan->costs.models[l->model].known || l->memory.after != l->memory.peak) continue;
        n++;
        last = l->model;
    }
    if (n == 1) fprintf(out, "%s: most memory for curvature\n", r->plan->sweep->models[last].name);
    if (n > 1) fprintf(out, "most memory for curvature: %lld models\n", (long long)n);
    return OK;
}

/* Work, bytes and time of the checkpoints' visits, phases of less than half a percent of it left
 * out. What is left includes the points of surfaces. */
static void print_total(const struct plan_report *r, FILE *out)
{
    char time[QUANTITY], left[QUANTITY], flop[QUANTITY], bytes[QUANTITY];
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
    fputs("all", out);
    for (int k = 0; k < MEASURES_N; k++)
        if (r->plan->more[k])
            fprintf(out, " but the %s of %s", measures[k]->noun, measures[k]->group);
    quantity_plain(cost_flop(&r->cost) / 1e12, 4, flop);
    quantity_plain(r->cost.bytes / 1e9, 4, bytes);
    fprintf(out, "%s: %s TFLOP, %s GB read, %s on one worker",
            known < r->n ? " but the models of unknown cost" : "", flop, bytes, time);
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

enum status plan_report_print(const struct plan_report *r, FILE *out, struct err *e)
{
    print_machine(r, out);
    PASS(print_models(r, out, e));
    print_total(r, out);
    plan_visits_say(&r->remaining, "  ", out);
    for (int k = 0; k < MEASURES_N; k++)
        if (r->to_write[k])
            fprintf(out, "%s: %lld model%s to write, %.4g GB of disk\n", measures[k]->name,
                    (long long)r->to_write[k], quantity_plural(r->to_write[k]), r->disk[k] / 1e9);
    if (r->n_simulations)
        fprintf(out, "%8s %12s %8s %8s %10s\n", "nodes", "time", "idle", "batches", "repeated");
    for (int64_t i = 0; i < r->n_simulations; i++) {
        const struct sched_simulation *s = &r->simulations[i];
        char time[QUANTITY];
        quantity_time(s->makespan, time);
        fprintf(out, "%8lld %12s %6.1f %% %8lld %8.1f %%\n", (long long)(s->n_groups * r->group),
                time, 100 * s->idle, (long long)s->batches,
                s->least > 0 ? 100 * fmax(s->work / s->least - 1, 0) : 0);
    }
    return OK;
}

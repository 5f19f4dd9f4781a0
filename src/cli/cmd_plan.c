/* qtraj plan: the visits and cells of a sweep, their states and costs. */
#include "cli/args.h"
#include "cli/cli.h"
#include "cli/run_arguments.h"
#include "plan/plan_parts.h"
#include "records/part_files.h"
#include "run/owner.h"
#include "run/plan_report.h"
#include "run/slurm_site.h"
#include "util/fsx.h"
#include "util/limits.h"
#include "util/mem.h"
#include "util/num.h"
#include "util/page.h"
#include "util/quantity.h"
#include <omp.h>
#include <stdio.h>

/* The plan's records. */
struct plan_states {
    const struct plan *plan;
    struct plan_part part;
    int64_t first, end; /* checkpoints: those of the part, or all */
    const struct results_view *view;
    const struct inventory *all;
};

/* *finished (if not NULL): whether it has a finished record, which may lack scores. */
static enum result_state cell_state(const struct plan_states *p, const struct plan_checkpoint *c,
                                    int64_t variant, char key[HASH_HEX], bool *finished)
{
    plan_cell_key(p->plan, c, variant, key);
    const json_t *record = p->view ? results_view_find(p->view, key) : NULL;
    if (finished) *finished = result_state_of(record) == STATE_DONE;
    if (!p->plan->variants[variant].applicable) return STATE_NOT_APPLICABLE;
    return plan_texts_state(p->plan, c, record);
}

/* *state = that of the record that measure k makes of the checkpoint. False: it makes none. */
static bool own_state(const struct plan_states *p, int k, const struct plan_checkpoint *c,
                      enum result_state *state)
{
    if (!measures[k]->plan_key || !c->keys[k][0]) return false;
    *state = result_state_of(p->view ? results_view_find(p->view, c->keys[k]) : NULL);
    return true;
}

/* One object per visit, with its cells. */
static json_t *visit_json(const struct plan_states *p, const struct plan_checkpoint *c)
{
    const struct model_entry *m = &p->plan->sweep->models[c->model];
    json_t *cells = json_array();
    for (int64_t i = 0; i < p->plan->n_variants; i++) {
        const struct plan_variant *v = &p->plan->variants[i];
        char key[HASH_HEX];
        const char *state = result_state_words[cell_state(p, c, i, key, NULL)];
        json_array_append_new(cells,
                              json_pack("{s:I, s:s, s:s, s:s}", "bits", (json_int_t)v->bits,
                                        "quantizer", v->method->name, "status", state, "key", key));
    }
    json_t *visit =
        json_pack("{s:s, s:s, s:s, s:b, s:s, s:o}", "model", m->name, "checkpoint",
                  m->rows[c->row].checkpoint, "path", weights_folder(&c->weights), "present",
                  weights_present(&c->weights), "key", c->key, "cells", cells);
    enum result_state own;
    for (int k = 0; k < MEASURES_N; k++)
        if (own_state(p, k, c, &own))
            json_object_set_new(visit, measures[k]->name, json_string(result_state_words[own]));
    return visit;
}

static struct result_counts count_cells(const struct plan_states *p)
{
    return rows_count(&p->all->rows[measure_place_of(&measure_cell)], -1);
}

static enum status print_json(const struct plan_states *p, const struct plan_report *report,
                              const struct plan_faults *faults, struct err *e)
{
    const struct plan *plan = p->plan;
    const struct result_counts n = count_cells(p);
    const int64_t not_applicable = n.by_state[STATE_NOT_APPLICABLE];
    json_auto_t *list = json_array();
    for (int64_t i = 0; i < faults->all.n; i++) {
        AUTO_FREE char *line = NULL;
        PASS(faults_line(&faults->all, i, &line, e));
        json_array_append_new(list, json_string(line));
    }
    json_t *visits = json_array();
    for (int64_t i = p->first; i < p->end; i++)
        json_array_append_new(visits, visit_json(p, &plan->checkpoints[i]));
    json_t *json = json_pack("{s:s, s:s, s:b, s:I, s:I, s:I, s:I, s:o, s:o, s:O}", "name",
                             plan->sweep->name, "results", plan->results, "draft",
                             plan->missing.n > 0, "cells", (json_int_t)(n.records + not_applicable),
                             "done", (json_int_t)n.by_state[STATE_DONE], "failed",
                             (json_int_t)n.by_state[STATE_FAILED], "not_applicable",
                             (json_int_t)not_applicable, "visits", visits, "cost",
                             plan_report_json(report), "faults", list);
    if (p->part.n)
        json_object_set_new(json, "part",
                            json_pack("{s:I, s:I, s:I, s:I, s:f}", "k", (json_int_t)p->part.k, "n",
                                      (json_int_t)p->part.n, "first", (json_int_t)p->part.first,
                                      "end", (json_int_t)p->part.end, "cost", p->part.cost));
    return cli_print_json(json, JSON_INDENT(1) | JSON_SORT_KEYS, e);
}

static char mark_of(enum result_state state)
{
    static const char marks[STATE_N] = {'.', '*', '!', ' '};
    return marks[state];
}

/* The states of a visit's records in a line: "gptq 2. 3+ 4*  rtn 2! 3*  curvature.". */
static void print_states(const struct plan_states *p, const struct plan_checkpoint *c, FILE *out)
{
    for (int64_t i = 0; i < p->plan->n_variants; i++) {
        const struct plan_variant *v = &p->plan->variants[i];
        char key[HASH_HEX];
        bool finished; /* but for scores on texts that came later: '+' */
        const enum result_state state = cell_state(p, c, i, key, &finished);
        const char mark = state == STATE_PENDING && finished ? '+' : mark_of(state);
        if (i % p->plan->n_bits == 0) fprintf(out, "  %s", v->method->name);
        if (mark != ' ') fprintf(out, " %lld%c", (long long)v->bits, mark);
    }
    enum result_state own;
    for (int k = 0; k < MEASURES_N; k++)
        if (own_state(p, k, c, &own)) fprintf(out, "  %s%c", measures[k]->name, mark_of(own));
}

static void print_counts(const struct result_counts *n, FILE *out)
{
    fprintf(out, "(* done %lld, ", (long long)n->by_state[STATE_DONE]);
    if (n->to_score) fprintf(out, "+ to score on added texts %lld, ", (long long)n->to_score);
    fprintf(out, "! failed %lld, . pending %lld)", (long long)n->by_state[STATE_FAILED],
            (long long)(n->by_state[STATE_PENDING] - n->to_score));
}

/* Columns that the names of models and of checkpoints take at most. */
static void name_widths(const struct plan *p, int widths[2])
{
    for (int64_t i = 0; i < p->n_checkpoints; i++) {
        const struct model_entry *m = &p->sweep->models[p->checkpoints[i].model];
        const int model = (int)strlen(m->name);
        const int name = (int)strlen(m->rows[p->checkpoints[i].row].checkpoint);
        if (model > widths[0]) widths[0] = model;
        if (name > widths[1]) widths[1] = name;
    }
}

static void print_accuracies(const struct plan_states *p, FILE *out)
{
    for (int k = 0; recorded_measures[k]; k++) {
        const struct result_counts n = rows_count(&p->all->rows[k], -1);
        const struct measure *m = recorded_measures[k];
        if ((!measure_has_axis(m, &axis_task) && !m->cell_key) || !n.records) continue;
        fprintf(out, "%s: %lld ", recorded_measures[k]->noun, (long long)n.records);
        print_counts(&n, out);
        putc('\n', out);
    }
}

/* Where results go. A wrong name would start over. */
static void print_place(const char *results, const struct results_view *view, FILE *out)
{
    char *folder = NULL;
    const bool begun = view && view->plan;
    const bool made = !begun && fsx_parent(results, &folder, NULL) == OK && !fsx_is_dir(folder);
    fprintf(out, " into %s%s%s\n", results, begun ? "" : ", a new results file",
            made ? " in a folder that a run makes" : "");
    free(folder);
}

static void print_visits(const struct plan_states *p, FILE *out)
{
    const struct plan *plan = p->plan;
    const struct result_counts cells = count_cells(p);
    int names[2] = {0};
    name_widths(plan, names);
    fprintf(out, "%s: ", plan->sweep->name);
    if (p->part.n) fprintf(out, "part %lld of %lld: ", (long long)p->part.k, (long long)p->part.n);
    fprintf(out, "%lld visit%s, %lld cell%s ", (long long)(p->end - p->first),
            quantity_plural(p->end - p->first), (long long)cells.records,
            quantity_plural(cells.records));
    print_counts(&cells, out);
    const struct result_counts more =
        rows_count(&p->all->rows[measure_place_of(&measure_replicate)], -1);
    if (more.records) {
        fprintf(out, ", %lld replicate%s of them ", (long long)more.records,
                quantity_plural(more.records));
        print_counts(&more, out);
    }
    print_place(plan->results, p->view, out);
    for (int64_t i = p->first; i < p->end; i++) {
        const struct plan_checkpoint *c = &plan->checkpoints[i];
        const struct model_entry *m = &plan->sweep->models[c->model];
        fprintf(out, "%-*s  %-*s%s", names[0], m->name, names[1], m->rows[c->row].checkpoint,
                weights_present(&c->weights) ? "" : "  (not on disk)");
        print_states(p, c, out);
        putc('\n', out);
    }
    print_accuracies(p, out);
    for (int k = 0; recorded_measures[k]; k++) {
        const struct result_counts n = rows_count(&p->all->rows[k], -1);
        if (recorded_measures[k]->report != REPORT_PARTS || !n.records) continue;
        const char *noun = recorded_measures[k]->noun; /* ends with s */
        fprintf(out, "%ss: %lld %.*s, a visit each ", recorded_measures[k]->part,
                (long long)n.records, (int)strlen(noun) - (n.records == 1), noun);
        print_counts(&n, out);
        putc('\n', out);
    }
}

/* Lines that are longer than a terminal is wide continue on the next. */
static enum status print_text(const struct plan_states *p, const struct plan_report *r, bool brief,
                              struct err *e)
{
    enum status st = OK;
    char *text = NULL;
    size_t n;
    FILE *out = open_memstream(&text, &n);
    ENSURE(out, ERR_NOMEM, "out of memory for the plan");
    if (!brief) print_visits(p, out);
    TRY(plan_report_print(r, out, e));
    const bool whole = fclose(out) == 0;
    out = NULL;
    ENSURE(whole && text, ERR_NOMEM, "out of memory for the plan");
    page_print_lines(stdout, page_width(stdout, INT32_MAX), 4, text);
done:
    if (out) fclose(out);
    free(text);
    return st;
}

struct plan_arguments {
    const char *path, *rate, *simulate, *part;
    struct texts set, only;
    struct plan_choice choice; /* what of the rest is counted as left */
    bool json, brief;
    int64_t group;
};

static void arguments_free(struct plan_arguments *a)
{
    texts_free(&a->set);
    texts_free(&a->only);
}

/* Leaves out the results of weights that have changed since, which are to be computed again. */
static enum status leave_changed(struct results_view *view, const json_t *changed, struct err *e)
{
    const char *name;
    json_t *one, *other = json_object(),
                 *plan = json_pack("{s:{s:o}}", "provenance", "weights_read", other);
    json_object_foreach((json_t *)(uintptr_t)changed, name, one) {
        json_object_set_new(other, name, json_string("of now"));
    }
    const enum status st = json_whole(e);
    if (st == OK && view && json_object_size(other)) results_view_choose(view, plan);
    json_decref(plan);
    return st;
}

static enum status report(struct plan *p, struct results_view *view, const struct plan_arguments *a,
                          struct plan_faults *f, struct err *e)
{
    const struct run_options *o = &p->sweep->run;
    CLEANUP(plan_report_free) struct plan_report r = {0};
    const struct plan_part *part = &a->choice.part;
    CLEANUP(inventory_close) struct inventory all = {0};
    struct plan_states states = {
        .plan = p, .part = *part, .view = view, .end = p->n_checkpoints, .all = &all};
    const int64_t threads = o->threads ? o->threads : omp_get_max_threads();
    struct limits l;
    int64_t memory = o->memory;
    /* else what a rank alone on this node would take, as a run does: a tenth stays free */
    if (!memory && limits_read("", &l, NULL) == OK) memory = limits_usable(l.memory);
    if (o->threads) omp_set_num_threads((int)o->threads);
    PASS(owner_tell_own(p, view, a->path, a->set.text, a->set.n, e));
    PASS(plan_report_rates(p, a->rate, "a worker", e));
    PASS(plan_report_fit(p, threads, memory, e));
    plan_costs_learn(p, view);
    PASS(plan_report_make(p, view, threads, memory, &a->choice, &r, e));
    r.rates_from = a->rate ? "as given" : "measured now";
    PASS(plan_report_faults(&r, o->memory || !a->rate, f, e));
    if (a->simulate) PASS(plan_report_simulate(&r, a->simulate, a->group, e));
    PASS(leave_changed(view, r.remaining.changed, e));
    PASS(plan_inventory(p, view, &all, e));
    if (part->n) {
        states.first = min64(part->first, p->n_checkpoints);
        states.end = min64(part->end, p->n_checkpoints);
        inventory_cut(&all, part->first, part->end);
    }
    PASS(plan_report_failed(&r, &all, f, e));
    return a->json ? print_json(&states, &r, f, e) : print_text(&states, &r, a->brief, e);
}

/* results: of a part, owned by the caller. */
static enum status make_plan(struct plan_arguments *a, struct sweep *sweep, struct plan *plan,
                             char **results, struct plan_faults *f, struct err *e)
{
    struct plan_part *part = &a->choice.part;
    if (a->part) PASS(plan_part_parse(a->part, part, e));
    PASS(sweep_read(a->path, texts_list(&a->set), a->set.n, sweep, e));
    PASS(plan_make(sweep, true, plan, e));
    PASS(plan_choice_match(plan, &a->choice, e));
    PASS(plan_part_find(plan, false, part, e));
    PASS(plan_warn(plan, f, e));
    if (part->n) PASS(parts_path(sweep->results, part->k, part->n, results, e));
    if (part->n) plan->results = *results;
    return run_check_results(plan, f, e);
}

static enum status run(struct call *c, struct err *e)
{
    CLEANUP(arguments_free) struct plan_arguments a = {.group = 1};
    CLEANUP(sweep_free) struct sweep sweep = {0};
    CLEANUP(plan_free) struct plan plan = {0};
    CLEANUP(plan_faults_free) struct plan_faults faults = {0};
    AUTO_FREE char *results = NULL;
    CLEANUP(results_view_close_at) struct results_view *view = NULL;
    const struct arg table[] = {
        {"--set", ARG_LIST, &a.set, "KEY=VALUE", "override a key of the sweep file"},
        {"--only", ARG_LIST, &a.only, "KEY=PATTERN",
         "count only what `run` would compute with it as remaining"},
        {"--part", ARG_TEXT, &a.part, "K/N", "what run --part K/N would do"},
        {"--redo", ARG_SWITCH, &a.choice.redo, NULL, "count finished cells as remaining too"},
        {"--rate", ARG_TEXT, &a.rate, "GFLOPS",
         "sgemm's rate of a worker elsewhere, instead of what is measured here"},
        {"--simulate", ARG_TEXT, &a.simulate, "NODES[,NODES...]",
         "the schedule of the remaining visits on NODES nodes with one worker each"},
        {"--group", ARG_INTEGER, &a.group, "NODES",
         "nodes that work on a visit together in --simulate (default 1)"},
        {"--brief", ARG_SWITCH, &a.brief, NULL, "models and totals without the list of visits"},
        {"--json", ARG_SWITCH, &a.json, NULL, "print JSON"},
    };
    static const struct arg_with with[] = {{"--group", "--simulate"}, {NULL, NULL}};
    const struct args args = {ARGS(table), .with = with};
    PASS(args_parse(&args, c, &a.path, 1, e));
    if (c->help) return OK;
    NEED(!a.brief || !a.json, ERR_USAGE, "--brief and --json: expected one of them");
    a.choice.n_only = a.only.n;
    a.choice.only = a.only.text;
    PASS(plan_choice_check(&a.choice, e));
    NEED(a.group >= 1, ERR_USAGE, "--group %lld: expected at least 1", (long long)a.group);
    PASS(make_plan(&a, &sweep, &plan, &results, &faults, e));
    PASS(run_arguments_view(&sweep, &a.choice.part, &view, e));
    if (view) PASS(results_warn_of_stale(view, e));
    PASS(plan_take(&plan, view, e));
    PASS(plan_warn_changed(&plan, view, e));
    PASS(report(&plan, view, &a, &faults, e));
    plan_faults_log(&faults);
    const bool all_fail = faults.left && faults.failing == faults.left;
    c->code = all_fail ? EXIT_BAD_INPUT : faults.all.n ? EXIT_CELLS_FAILED : EXIT_DONE;
    return OK;
}

const struct command cmd_plan = {
    .name = "plan",
    .arguments = "SWEEP.yaml [--set KEY=VALUE] [--rate GFLOPS] [--simulate N] ...",
    .doc = "predict work, memory and time of a sweep, and list how far it is",
    .run = run,
};

#include "cli/args.h"
#include "cli/cli.h"
#include "cli/plan_report.h"
#include "plan/plan.h"
#include "results/results.h"
#include "util/fsx.h"
#include "util/limits.h"
#include "util/log.h"
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] = "plan SWEEP.yaml [--set KEY=VALUE] [--rate GFLOPS] [--simulate N] ...";

static const char *cell_state(const struct plan_variant *v, const struct results_view *view,
                              const char *key)
{
    if (!v->applicable) return "not_applicable";
    const json_t *record = view ? results_view_find(view, key) : NULL;
    return record ? json_text(record, "status", "") : "pending";
}

/* NULL: not asked for. */
static const char *curvature_state(const struct plan_checkpoint *c, const struct results_view *view)
{
    if (!c->curvature_key[0]) return NULL;
    const json_t *record = view ? results_view_find(view, c->curvature_key) : NULL;
    return record ? json_text(record, "status", "") : "pending";
}

/* One object a visit, its cells inside. */
static json_t *visit_json(const struct plan *p, const struct plan_checkpoint *c,
                          const struct results_view *view)
{
    const struct model_entry *m = &p->sweep->models[c->model];
    json_t *cells = json_array();
    for (int64_t i = 0; i < p->n_variants; i++) {
        const struct plan_variant *v = &p->variants[i];
        char key[HASH_HEX];
        results_cell_key(c->key, v->key, key);
        json_array_append_new(cells, json_pack("{s:I, s:s, s:s, s:s}", "bits", (json_int_t)v->bits,
                                               "quantizer", v->method->name, "status",
                                               cell_state(v, view, key), "key", key));
    }
    return json_pack("{s:s, s:s, s:s, s:b, s:s, s:o, s:s*}", "model", m->name, "checkpoint",
                     m->rows[c->row].checkpoint, "path", weights_folder(&c->weights), "present",
                     weights_present(&c->weights), "key", c->key, "cells", cells, "curvature",
                     curvature_state(c, view));
}

static enum status print_json(const struct plan *p, const struct results_view *view,
                              const struct plan_report *report, struct err *e)
{
    enum status st = OK;
    struct plan_counts n;
    json_t *visits = json_array();
    plan_count(p, view, &n);
    for (int64_t i = 0; i < p->n_checkpoints; i++)
        json_array_append_new(visits, visit_json(p, &p->checkpoints[i], view));
    json_t *json =
        json_pack("{s:s, s:s, s:b, s:I, s:I, s:I, s:I, s:o, s:o}", "name", p->sweep->name,
                  "results", p->sweep->results, "draft", p->draft, "cells", (json_int_t)n.cells,
                  "done", (json_int_t)n.done, "failed", (json_int_t)n.failed, "not_applicable",
                  (json_int_t)n.not_applicable, "visits", visits, "cost", plan_report_json(report));
    ENSURE(json, ERR_NOMEM, "out of memory");
    json_dumpf(json, stdout, JSON_INDENT(1) | JSON_SORT_KEYS);
    putchar('\n');
done:
    json_decref(json);
    return st;
}

static char mark_of(const char *state)
{
    return strcmp(state, "done") == 0 ? '*' : strcmp(state, "failed") == 0 ? '!' : '.';
}

/* The states of a visit's cells in a line: "gptq 2. 3. 4*  rtn 2! 3*  curvature.". */
static void print_cells(const struct plan *p, const struct plan_checkpoint *c,
                        const struct results_view *view)
{
    for (int64_t i = 0; i < p->n_variants; i++) {
        const struct plan_variant *v = &p->variants[i];
        char key[HASH_HEX];
        results_cell_key(c->key, v->key, key);
        const char *state = cell_state(v, view, key);
        char mark = v->applicable ? mark_of(state) : ' ';
        if (i % p->n_bits == 0) printf("  %s", v->method->name);
        if (mark != ' ') printf(" %lld%c", (long long)v->bits, mark);
    }
    const char *curvature = curvature_state(c, view);
    if (curvature) printf("  curvature%c", mark_of(curvature));
}

static void print_text(const struct plan *p, const struct results_view *view)
{
    struct plan_counts n;
    plan_count(p, view, &n);
    printf("%s: %lld visits, %lld cells (* done %lld, ! failed %lld, . pending %lld) into %s\n",
           p->sweep->name, (long long)p->n_checkpoints, (long long)(n.cells - n.not_applicable),
           (long long)n.done, (long long)n.failed,
           (long long)(n.cells - n.done - n.failed - n.not_applicable), p->sweep->results);
    for (int64_t i = 0; i < p->n_checkpoints; i++) {
        const struct plan_checkpoint *c = &p->checkpoints[i];
        const struct model_entry *m = &p->sweep->models[c->model];
        printf("%-20s %-32s%s", m->name, m->rows[c->row].checkpoint,
               weights_present(&c->weights) ? "" : "  (not on disk)");
        print_cells(p, c, view);
        putchar('\n');
    }
    if (n.points > 0)
        printf("surfaces: %lld points, a visit each (* done %lld, ! failed %lld, . pending %lld)\n",
               (long long)n.points, (long long)n.points_done, (long long)n.points_failed,
               (long long)(n.points - n.points_done - n.points_failed));
}

/* The rates that costs are turned into time with. */
static enum status set_rates(struct plan *p, const char *rate, const char **from, struct err *e)
{
    enum status st = OK;
    if (rate) {
        char *end;
        double gflops = strtod(rate, &end);
        ENSURE(end != rate && *end == '\0' && gflops > 0 && gflops < 1e9, ERR_USAGE,
               "--rate %s: expected GFLOP/s of a worker in single precision", rate);
        p->costs.rates = cost_rates_given(gflops);
        *from = "as given";
    } else {
        const char *folder = NULL;
        for (int64_t i = 0; i < p->n_checkpoints && !folder; i++)
            if (weights_present(&p->checkpoints[i].weights))
                folder = weights_folder(&p->checkpoints[i].weights);
        TRY(cost_rates_measure(folder, &p->costs.rates, e));
        *from = "measured now";
    }
done:
    return st;
}

/* What a rank alone on this node would take, as a run does: a tenth stays free. */
static int64_t rank_memory(const struct sweep *s)
{
    struct limits l;
    if (s->run.memory) return s->run.memory;
    return limits_read("", &l, NULL) == OK ? l.memory / 10 * 9 : 0;
}

struct plan_arguments {
    const char *path, *rate, *simulate;
    struct arg_list set;
    bool json, brief;
    int64_t group;
};

static enum status report(struct plan *p, const struct results_view *view,
                          const struct plan_arguments *a, struct err *e)
{
    enum status st = OK;
    const struct run_options *o = &p->sweep->run;
    struct plan_report r = {0};
    const char *from = "";
    if (o->threads) omp_set_num_threads((int)o->threads);
    TRY(set_rates(p, a->rate, &from, e));
    plan_costs_learn(p, view);
    TRY(plan_report_make(p, view, o->threads ? o->threads : omp_get_max_threads(),
                         rank_memory(p->sweep), &r, e));
    r.rates_from = from;
    if (a->simulate) TRY(plan_report_simulate(&r, a->simulate, a->group, e));
    if (a->json) {
        TRY(print_json(p, view, &r, e));
    } else {
        if (!a->brief) print_text(p, view);
        plan_report_print(&r);
    }
done:
    plan_report_free(&r);
    return st;
}

static enum status run(MPI_Comm world, int argc, char **argv, int *code, struct err *e)
{
    enum status st = OK;
    struct plan_arguments a = {.group = 1};
    bool help;
    struct sweep sweep = {0};
    struct plan plan = {0};
    char *journal_file = NULL;
    struct journal *journal = NULL;
    struct results_view *view = NULL;
    const struct arg table[] = {
        {"--set", ARG_LIST, &a.set, "KEY=VALUE", "override a key of the sweep file"},
        {"--rate", ARG_TEXT, &a.rate, "GFLOPS",
         "sgemm's rate of a worker elsewhere, instead of what is measured here"},
        {"--simulate", ARG_TEXT, &a.simulate, "NODES[,NODES...]",
         "the schedule of what is left on so many nodes, one worker each"},
        {"--group", ARG_INTEGER, &a.group, "NODES",
         "nodes that work on a visit together in --simulate (default 1)"},
        {"--brief", ARG_SWITCH, &a.brief, NULL, "models and totals without the list of visits"},
        {"--json", ARG_SWITCH, &a.json, NULL, "for machines"},
    };
    (void)world;
    (void)code;
    const struct args args = {.table = table, .n = sizeof table / sizeof *table};
    TRY(args_parse(&args, usage, argc, argv, &a.path, 1, 1, NULL, &help, e));
    if (help) goto done;
    ENSURE(a.group >= 1, ERR_USAGE, "--group %lld: expected at least 1", (long long)a.group);
    TRY(sweep_read(a.path, (const char *const *)a.set.items, a.set.n, &sweep, e));
    TRY(plan_make_draft(&sweep, &plan, e));
    if (plan.draft)
        log_warn("a text or tokenizer is not there yet: what it holds is taken from the options, "
                 "and finished cells are not recognised");
    TRY(journal_path(sweep.results, &journal_file, e));
    if (fsx_is_file(journal_file)) {
        TRY(journal_open_readonly(journal_file, &journal, e));
        /* A run that was killed at once leaves a journal without a plan: nothing is finished. */
        struct err none = {0};
        st = results_view_of_journal(journal, &view, &none);
        ENSURE(st == OK || st == ERR_FORMAT, st, "%s", none.text);
    }
    TRY(report(&plan, view, &a, e));
done:
    results_view_close(view);
    journal_close(journal);
    free(journal_file);
    plan_free(&plan);
    sweep_free(&sweep);
    arg_list_free(&a.set);
    return st;
}

const struct command cmd_plan = {
    .name = "plan",
    .arguments = usage,
    .doc = "visits and cells of a sweep: state, cost, memory, time",
    .run = run,
};

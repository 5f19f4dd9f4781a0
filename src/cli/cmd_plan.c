#include "cli/args.h"
#include "cli/cli.h"
#include "results/results.h"
#include "util/fsx.h"
#include "visit/plan.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] = "plan SWEEP.yaml [--set KEY=VALUE] [--json]";

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
    return json_pack("{s:s, s:s, s:s, s:b, s:s, s:f, s:o, s:s*}", "model", m->name, "checkpoint",
                     m->rows[c->row].checkpoint, "path", c->path, "present", fsx_is_dir(c->path),
                     "key", c->key, "flop_per_token", c->cost, "cells", cells, "curvature",
                     curvature_state(c, view));
}

static enum status print_json(const struct plan *p, const struct results_view *view, struct err *e)
{
    enum status st = OK;
    struct plan_counts n;
    json_t *visits = json_array();
    plan_count(p, view, &n);
    for (int64_t i = 0; i < p->n_checkpoints; i++)
        json_array_append_new(visits, visit_json(p, &p->checkpoints[i], view));
    json_t *json = json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:o}", "name", p->sweep->name,
                             "results", p->sweep->results, "cells", (json_int_t)n.cells, "done",
                             (json_int_t)n.done, "failed", (json_int_t)n.failed, "not_applicable",
                             (json_int_t)n.not_applicable, "visits", visits);
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
    double total = 0;
    plan_count(p, view, &n);
    for (int64_t i = 0; i < p->n_checkpoints; i++) total += p->checkpoints[i].cost;
    printf("%s: %lld visits, %lld cells (* done %lld, ! failed %lld, . pending %lld) into %s\n",
           p->sweep->name, (long long)p->n_checkpoints, (long long)(n.cells - n.not_applicable),
           (long long)n.done, (long long)n.failed,
           (long long)(n.cells - n.done - n.failed - n.not_applicable), p->sweep->results);
    for (int64_t i = 0; i < p->n_checkpoints; i++) {
        const struct plan_checkpoint *c = &p->checkpoints[i];
        const struct model_entry *m = &p->sweep->models[c->model];
        printf("%-20s %-32s %4.1f %% of the cost%s", m->name, m->rows[c->row].checkpoint,
               100 * c->cost / total, fsx_is_dir(c->path) ? "" : "  (not on disk)");
        print_cells(p, c, view);
        putchar('\n');
    }
}

static enum status run(MPI_Comm world, int argc, char **argv, int *code, struct err *e)
{
    enum status st = OK;
    const char *path;
    struct arg_list set = {0};
    bool json = false, help;
    struct sweep sweep = {0};
    struct plan plan = {0};
    char *journal_file = NULL;
    struct journal *journal = NULL;
    struct results_view *view = NULL;
    const struct arg table[] = {
        {"--set", ARG_LIST, &set, "KEY=VALUE", "override a key of the sweep file"},
        {"--json", ARG_SWITCH, &json, NULL, "for machines"},
    };
    (void)world;
    (void)code;
    const struct args args = {.table = table, .n = sizeof table / sizeof *table};
    TRY(args_parse(&args, usage, argc, argv, &path, 1, 1, NULL, &help, e));
    if (help) goto done;
    TRY(sweep_read(path, (const char *const *)set.items, set.n, &sweep, e));
    TRY(plan_make(&sweep, &plan, e));
    TRY(journal_path(sweep.results, &journal_file, e));
    if (fsx_is_file(journal_file)) {
        TRY(journal_open_readonly(journal_file, &journal, e));
        /* A run that was killed at once leaves a journal without a plan: nothing is finished. */
        struct err none = {0};
        st = results_view_of_journal(journal, &view, &none);
        ENSURE(st == OK || st == ERR_FORMAT, st, "%s", none.text);
    }
    if (json)
        TRY(print_json(&plan, view, e));
    else
        print_text(&plan, view);
done:
    results_view_close(view);
    journal_close(journal);
    free(journal_file);
    plan_free(&plan);
    sweep_free(&sweep);
    arg_list_free(&set);
    return st;
}

const struct command cmd_plan = {
    .name = "plan",
    .arguments = usage,
    .doc = "list the visits and cells of a sweep",
    .run = run,
};

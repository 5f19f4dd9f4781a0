/* A runs file becomes runs: the combinations of its grid, and their branches. */
#include "train/runs.h"
#include "options/yaml.h"
#include "util/fsx.h"
#include "util/mem.h"
#include "util/texts.h"
#include <stdarg.h>
#include <stdio.h>

/* --- the grid --- */

/* Takes the grid out of the root; NULL: there is none. */
static struct node *take_grid(struct node *root)
{
    for (int64_t i = 0; root->kind == NODE_MAP && i < root->n; i++) {
        struct node *found = root->items[i];
        if (strcmp(found->key, "grid") != 0) continue;
        root->n--;
        memmove(root->items + i, root->items + i + 1, (size_t)(root->n - i) * sizeof *root->items);
        return found;
    }
    return NULL;
}

static enum status check_grid(const struct node *grid, int64_t *combinations, struct err *e)
{
    char where[NODE_PLACE];
    *combinations = 1;
    if (!grid) return OK;
    node_place_text(&grid->key_place, where);
    NEED(grid->kind == NODE_MAP, ERR_USAGE, "%sgrid: expected keys, each with a list of values",
         where);
    for (int64_t i = 0; i < grid->n; i++) {
        const struct node *list = grid->items[i];
        node_place_text(&list->key_place, where);
        NEED(list->kind == NODE_LIST && list->n > 0, ERR_USAGE,
             "%sgrid.%s: expected a list of values", where, list->key);
        for (int64_t k = 0; k < list->n; k++)
            NEED(list->items[k]->kind == NODE_SCALAR, ERR_USAGE,
                 "%sgrid.%s: expected numbers or words in the list", where, list->key);
        *combinations *= list->n;
        NEED(*combinations <= RUNS_MAX, ERR_USAGE, "%sgrid: more than %d runs", where, RUNS_MAX);
    }
    return OK;
}

/* Reads combination number `at`; *name (the caller frees): after its values, NULL without a grid.
 */
static enum status read_combination(const struct node *root, const struct node *grid, int64_t at,
                                    const struct option_source *source, struct recipe *out,
                                    char **name, struct err *e)
{
    enum status st;
    CLEANUP(texts_free) struct texts texts = {0}; /* own borrows them */
    CLEANUP(node_free_at) struct node *own = NULL;
    char where[NODE_PLACE];
    const int64_t n = grid ? grid->n : 0;
    PASS(node_copy(root, &own, e));
    for (int64_t i = n - 1; i >= 0; i--) { /* the last key changes first */
        const struct node *list = grid->items[i], *value = list->items[at % list->n];
        const char *last = strrchr(list->key, '.');
        AUTO_FREE char *before = *name, *text = NULL;
        at /= list->n;
        *name = NULL;
        PASS(mem_format(name, e, "%s%s%s%s", last ? last + 1 : list->key, value->text,
                        before ? "-" : "", before ? before : ""));
        PASS(mem_format(&text, e, "%s=%s", list->key, value->text));
        PASS(texts_append(&texts, text, e));
        st = override_apply(own, texts.text[texts.n - 1], e);
        node_place_text(&list->key_place, where);
        if (st != OK) err_prefix(e, "%sgrid", where);
        PASS(st);
    }
    for (char *p = *name; p && *p; p++)
        if (*p == '/') *p = '_';
    st = options_read(&recipe_table, own, source, out, e);
    if (st != OK && n > 0) err_prefix(e, "with %s", *name);
    return st;
}

/* --- runs --- */

static int64_t find(const struct runs *r, int64_t first, const char *name)
{
    for (int64_t i = first; i < r->n; i++)
        if (strcmp(r->runs[i].name, name) == 0) return i;
    return -1;
}

static enum status add(struct runs *r, int64_t *capacity, struct run run, struct err *e)
{
    AUTO_FREE char *name = run.name;
    NEED(find(r, 0, name) < 0, ERR_USAGE, "two runs are called %s", name);
    NEED(name[0] && name[0] != '.' && !strchr(name, '/'), ERR_USAGE,
         "%s: a run's name is that of a folder", name);
    NEED(r->n < RUNS_MAX, ERR_USAGE, "more than %d runs", RUNS_MAX);
    const enum status st = schedule_resolve(&run.schedule, run.first, run.last - run.first, e);
    if (st != OK) err_prefix(e, "%s", name);
    PASS(st);
    PASS(mem_grow(&r->runs, r->n, capacity, sizeof *r->runs, e));
    r->runs[r->n++] = run;
    name = NULL;
    return OK;
}

/* *out = main-NAME with {from} replaced. */
static enum status branch_name(const char *own, const char *name, int64_t from, char **out,
                               struct err *e)
{
    const char *at = strstr(name, "{from}");
    if (!at) return mem_format(out, e, "%s-%s", own, name);
    return mem_format(out, e, "%s-%.*s%lld%s", own, (int)(at - name), name, (long long)from,
                      at + strlen("{from}"));
}

static enum status add_branch(struct runs *r, int64_t *capacity, int64_t own,
                              const struct branch_options *b, int64_t from, struct err *e)
{
    AUTO_FREE char *left = NULL;
    char *name = NULL;
    int64_t parent = own;
    if (b->of) {
        PASS(mem_format(&left, e, "%s-%s", r->runs[own].name, b->of));
        parent = find(r, own, left);
        NEED(parent >= 0, ERR_USAGE, "branches: %s: of: no branch before it is called %s", b->name,
             b->of);
    }
    const struct run *p = &r->runs[parent];
    NEED(from > p->first && from <= p->last, ERR_USAGE,
         "branches: %s: from: %lld is no step of %s, which has %lld to %lld", b->name,
         (long long)from, p->name, (long long)p->first + 1, (long long)p->last);
    PASS(branch_name(r->runs[own].name, b->name, from, &name, e));
    struct run run = {.name = name,
                      .recipe = p->recipe,
                      .parent = parent,
                      .left = p->name,
                      .first = from,
                      .last = from + b->steps,
                      .schedule = b->schedule};
    if (!b->own_peak) run.schedule.peak = p->schedule.peak;
    run.schedule.rate_of_step = p->schedule.rate_of_step;
    return add(r, capacity, run, e);
}

static enum status add_runs(struct runs *r, int64_t *capacity, const struct recipe *recipe,
                            const char *name, struct err *e)
{
    struct run run = {
        .recipe = recipe, .parent = -1, .last = recipe->steps, .schedule = recipe->schedule};
    const int64_t own = r->n;
    PASS(mem_string(&run.name, name ? name : recipe->name, e));
    PASS(add(r, capacity, run, e));
    for (int64_t i = 0; i < recipe->n_branches; i++)
        for (int64_t k = 0; k < recipe->branches[i].n_from; k++)
            PASS(
                add_branch(r, capacity, own, &recipe->branches[i], recipe->branches[i].from[k], e));
    return OK;
}

enum status runs_read(const char *path, const char *const *overrides, int64_t n, struct runs *out,
                      struct err *e)
{
    static const char *const own[] = {"output", "schedule", "steps", "model", NULL},
                             *const of_sweeps[] = {"models", "evaluation", "methods", "results",
                                                   NULL};
    AUTO_FREE char *folder = NULL, *name = NULL;
    CLEANUP(node_free_at) struct node *root = NULL, *grid = NULL;
    int64_t combinations, capacity = 0;
    CLEANUP(runs_free) struct runs r = {0};
    PASS(yaml_read_file(path, &root, e));
    PASS(node_check_kind(
        root, own, of_sweeps,
        "a sweep, which qtraj plan and qtraj run take, not a file of training runs", e));
    for (int64_t i = 0; i < n; i++) PASS(override_apply(root, overrides[i], e));
    grid = take_grid(root);
    PASS(check_grid(grid, &combinations, e));
    r.grid = grid != NULL;
    PASS(fsx_parent(path, &folder, e));
    const struct option_source source = {.code = ERR_USAGE, .folder = folder};
    PASS(mem_zero(&r.recipes, combinations, sizeof *r.recipes, "runs", e));
    for (int64_t i = 0; i < combinations; i++) {
        PASS(read_combination(root, grid, i, &source, &r.recipes[i], &name, e));
        r.n_recipes++;
        PASS(add_runs(&r, &capacity, &r.recipes[i], name, e));
        free(name);
        name = NULL;
    }
    *out = r;
    r = (struct runs){0};
    return OK;
}

void runs_free(struct runs *r)
{
    for (int64_t i = 0; i < r->n; i++) free(r->runs[i].name);
    for (int64_t i = 0; i < r->n_recipes; i++) options_free(&recipe_table, &r->recipes[i]);
    free(r->runs);
    free(r->recipes);
    *r = (struct runs){0};
}

bool run_has_checkpoint(const struct run *r, int64_t step)
{
    const struct checkpoint_options *c = &r->recipe->checkpoints;
    if (step <= r->first || step > r->last) return false;
    if (step == r->last || (c->every > 0 && step % c->every == 0)) return true;
    for (int64_t i = 0; i < c->n_at; i++)
        if (c->at[i] == step) return true;
    return false;
}

int64_t run_checkpoints(const struct run *r, int64_t step)
{
    const struct checkpoint_options *c = &r->recipe->checkpoints;
    int64_t n = c->every > 0 ? r->last / c->every - step / c->every : 0;
    if (step >= r->last) return 0;
    for (int64_t i = 0; i < c->n_at; i++)
        n += c->at[i] > step && c->at[i] < r->last && (c->every == 0 || c->at[i] % c->every != 0);
    return n + (c->every == 0 || r->last % c->every != 0);
}

bool run_is_left_at(const struct runs *all, int64_t run, int64_t step)
{
    for (int64_t i = run + 1; i < all->n; i++)
        if (all->runs[i].parent == run && all->runs[i].first == step) return true;
    return false;
}

int64_t run_step_tokens(const struct run *r)
{
    return r->recipe->batch.sequences * r->recipe->batch.length;
}

enum status run_path(const struct run *r, char **out, struct err *e, const char *fmt, ...)
{
    char name[200];
    va_list list;
    va_start(list, fmt);
    vsnprintf(name, sizeof name, fmt, list);
    va_end(list);
    return mem_format(out, e, "%s/%s%s%s", r->recipe->output, r->name, name[0] ? "/" : "", name);
}

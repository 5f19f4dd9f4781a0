#include "run/owner.h"
#include "records/part_files.h"
#include "records/plans.h"
#include "util/fsx.h"
#include "util/log.h"
#include "util/mem.h"
#include "util/quantity.h"

static bool in_plan(const struct plan *p, const json_t *model, const json_t *checkpoint)
{
    for (int64_t i = 0; i < p->n_checkpoints; i++)
        if (strcmp(plan_known_model(p, p->checkpoints[i].model), plans_known(model)) == 0 &&
            strcmp(plan_known_name(p, &p->checkpoints[i]), plans_known(checkpoint)) == 0)
            return true;
    return false;
}

/* *plan (a new reference) = what the journal's last run has planned; NULL: nothing. What cannot be
 * read is an error of opening it. */
static void look_at(const char *journal, json_t **plan)
{
    CLEANUP(part_look_free) struct part_look look = {0};
    if (fsx_is_file(journal) && part_look(journal, NULL, &look, NULL) == OK)
        *plan = TAKE(look.plan);
}

/* The same of the first that has a plan: the journal of the results, those of the sweep's whole
 * results, and of its parts. */
static enum status find_former(const char *results, const struct sweep *s, json_t **plan,
                               struct err *e)
{
    AUTO_FREE char *own = NULL;
    CLEANUP(parts_free) struct part_places all = {0};
    PASS(journal_path(results, &own, e));
    look_at(own, plan);
    PASS(parts_of(s->results, &all, e));
    for (int64_t i = 0; i < all.n && !*plan; i++) look_at(all.part[i].journal, plan);
    return OK;
}

enum status owner_check(const struct plan *p, const char *results, struct err *e)
{
    json_auto_t *plan = NULL;
    AUTO_FREE char *there = NULL;
    bool shared;
    PASS(find_former(results, p->sweep, &plan, e));
    if (!plan) return OK;
    /* there: "11 checkpoints of a, 3 of b"; shared: whether the plan has one of them. */
    size_t i, k;
    json_t *model, *one;
    shared = false;
    PASS(mem_string(&there, "", e));
    json_array_foreach(json_object_get(plan, "models"), i, model) {
        const char *name = json_text(model, "name", "");
        const json_t *list = json_object_get(model, "checkpoints");
        const int64_t n = (int64_t)json_array_size(list);
        json_array_foreach(list, k, one) shared = shared || in_plan(p, model, one);
        if (i == 0)
            PASS(mem_append(&there, e, "%lld checkpoint%s", (long long)n, quantity_plural(n)));
        if (i > 0 && i < 3) PASS(mem_append(&there, e, ", %lld", (long long)n));
        if (i < 3) PASS(mem_append(&there, e, " of %s", name));
        if (i == 3) PASS(mem_append(&there, e, ", ..."));
    }
    const char *name = json_text(plan, "name", "");
    NEED(shared && strcmp(name, p->sweep->name) == 0, ERR_USAGE,
         "results: %s is another sweep's: %s, %s, planned %s on %s; name another file, or take "
         "it over with `qtraj run --adopt`",
         results, name, there, json_text(plan, "utc", "?"), json_text(plan, "host", "?"));
    return OK;
}

/* *out (the caller frees) = the folder of a checkpoint by an earlier plan; NULL: it has none. */
static enum status folder_then(const json_t *plan, const struct plan *p,
                               const struct plan_checkpoint *c, char **out, struct err *e)
{
    const json_t *config = json_object_get(json_object_get(plan, "config"), "models");
    size_t i;
    json_t *model;
    *out = NULL;
    json_array_foreach(json_object_get(plan, "models"), i, model) {
        const char *path = json_text(json_array_get(config, i), "path", NULL);
        if (path && strcmp(plans_known(model), plan_known_model(p, c->model)) == 0)
            return plan_path_of(path, plan_name_of(p, c), out, e);
    }
    return OK;
}

/* Whether the checkpoint was in another folder. *then: owned by the caller. */
static enum status was_elsewhere(const json_t *plan, const struct plan *p,
                                 const struct plan_checkpoint *c, char **then, bool *elsewhere,
                                 struct err *e)
{
    const char *now = weights_folder(&c->weights);
    *elsewhere = false;
    *then = NULL;
    if (c->weights.kind != WEIGHTS_STORED) return OK;
    PASS(folder_then(plan, p, c, then, e));
    *elsewhere = *then && strcmp(*then, now) != 0 && !fsx_same(*then, now);
    return OK;
}

enum status owner_check_weights(struct plan *p, struct err *e)
{
    json_auto_t *plan = NULL;
    /* The first checkpoint whose weights differ from those of its results, and the number of all.
     */
    AUTO_FREE char *first = NULL;
    int64_t n = 0;
    CLEANUP(results_view_close_at) struct results_view *view = NULL;
    PASS(find_former(p->results, p->sweep, &plan, e));
    for (int64_t i = 0; plan && i < p->n_checkpoints; i++) {
        const struct plan_checkpoint *c = &p->checkpoints[i];
        AUTO_FREE char *then = NULL;
        char now[HASH_HEX];
        bool elsewhere;
        PASS(was_elsewhere(plan, p, c, &then, &elsewhere, e));
        if (!elsewhere) continue;
        if (!view) {
            PASS(parts_view(p->sweep->results, VIEW_STATES, &view, e));
            PASS(plan_former(p, view, e));
        }
        const json_t *record = results_view_find(view, c->key);
        if (!plan_weights_changed(c, record, "weights_hash") || n++ > 0) continue;
        PASS(weights_hash(&c->weights, now, e));
        PASS(mem_format(&first, e, "%s %s: %.8s.. in %s, now %.8s.. in %s",
                        p->sweep->models[c->model].name, plan_name_of(p, c),
                        json_text(json_object_get(record, "provenance"), "weights_hash", ""), then,
                        now, weights_folder(&c->weights)));
    }
    NEED(n == 0, ERR_USAGE,
         "results: %s has results of other weights of %lld checkpoint%s (%s); give the model "
         "another name or the sweep other results, or replace them with `qtraj run --adopt`",
         p->sweep->results, (long long)n, quantity_plural(n), first);
    return OK;
}

/* *done = the plan's cells that are finished in these results; none if they cannot be read. */
static void count_cells(const struct plan *p, const char *results, int64_t *done, int64_t *all)
{
    AUTO_FREE char *journal = NULL;
    CLEANUP(results_view_close_at) struct results_view *view = NULL;
    CLEANUP(inventory_close) struct inventory inventory = {0};
    if (journal_path(results, &journal, NULL) == OK && fsx_is_file(journal) &&
        results_view_open(journal, VIEW_STATES, NULL, &view, NULL) == OK &&
        plan_inventory(p, view, &inventory, NULL) == OK) {
        const struct rows *cells = &inventory.rows[measure_place_of(&measure_cell)];
        const struct result_counts n = rows_count(cells, -1);
        *done = n.by_state[STATE_DONE];
        *all = n.records;
    }
}

enum status owner_tell_own(const struct plan *p, const struct results_view *view, const char *path,
                           char *const *overrides, int64_t n, struct err *e)
{
    AUTO_FREE const char **others = NULL;
    CLEANUP(sweep_free) struct sweep own = {0};
    int64_t kept = 0, done = 0, all = 0;
    if (view && view->plan) return OK;
    PASS(mem_alloc(&others, n, sizeof *others, "overrides", e));
    for (int64_t i = 0; i < n; i++)
        if (strncmp(overrides[i], "results=", 8) != 0) others[kept++] = overrides[i];
    if (kept < n && sweep_read(path, others, kept, &own, NULL) == OK)
        count_cells(p, own.results, &done, &all);
    if (done)
        log_warn("%s is new, and %lld of these %lld cells are finished in %s, which the sweep file "
                 "names: without --set results=... they are not computed again",
                 p->results, (long long)done, (long long)all, own.results);
    return OK;
}

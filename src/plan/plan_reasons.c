/* Why what earlier runs have measured is pending again, by the newest plan of the journal. */
#include "plan/plan_internal.h"
#include "records/plans.h"
#include "util/log.h"
#include "util/mem.h"
#include <stdlib.h>
#include <string.h>

/* The entry of an array whose "name" is that; NULL: none. */
static const json_t *named(const json_t *list, const char *name)
{
    size_t i;
    json_t *one;
    json_array_foreach(list, i, one) if (strcmp(json_text(one, "name", ""), name) == 0) return one;
    return NULL;
}

/* "KEY: 4 -> 8", joined by commas. NULL, empty: not said. */
static enum status add_change(char **text, const char *key, const json_t *was, const json_t *now,
                              struct err *e)
{
    const int how = JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(6);
    char *from = was ? json_dumps(was, how) : NULL, *to = now ? json_dumps(now, how) : NULL;
    const enum status st = mem_append(text, e, "%s%s: %.100s -> %.100s", *text ? ", " : "", key,
                                      from ? from : "none", to ? to : "none");
    free(from);
    free(to);
    return st;
}

/* The keys of two objects whose values differ. */
static enum status add_changes(char **text, const json_t *was, const json_t *now, struct err *e)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)now, key, value)
    {
        const json_t *old = json_object_get(was, key);
        if (!json_equal(old, value)) PASS(add_change(text, key, old, value, e));
    }
    json_object_foreach((json_t *)(uintptr_t)was, key, value)
    {
        if (!json_object_get(now, key)) PASS(add_change(text, key, value, NULL, e));
    }
    return OK;
}

/* What a measure without a text of its own was measured on: the first evaluation text. */
static enum status add_text(char **text, const struct plan *p, const json_t *then,
                            const json_t *section, const struct measure *of, struct err *e)
{
    const struct data_options now = of->text ? of->text(p, 0) : (struct data_options){0};
    const json_t *data = json_object_get(section, "data"),
                 *first = json_array_get(json_object_get(then, "evaluation"), 0);
    const char *was = json_text(first, "name", "");
    const bool own = json_object_get(data, "text") || json_object_get(data, "ids");
    if (!now.name || own || strcmp(was, now.name) == 0) return OK;
    return mem_append(text, e,
                      "%sit is measured on the first evaluation text, which was %s and is %s "
                      "(`data` of its section names one of its own)",
                      *text ? "; " : "", was, now.name);
}

/* Says in a line what differs between the settings of then and of now. kept: some of it is not. */
static enum status say_why(const struct plan *p, const json_t *then, const struct measure *of,
                           const char *what, bool kept, struct err *e)
{
    enum status st = OK;
    json_t *config = sweep_to_json(p->sweep);
    char *text = NULL;
    const json_t *was = json_object_get(then, of->name), *now = json_object_get(config, of->name);
    if (json_is_string(was) && json_is_string(now)) { /* the label of a method */
        was = named(json_object_get(then, "methods"), json_string_value(was));
        now = named(json_object_get(config, "methods"), json_string_value(now));
    }
    TRY(add_changes(&text, was, now, e));
    TRY(add_text(&text, p, then, was, of, e));
    if (text) log_warn("%s is pending again, %s: %s", what, kept ? "in part" : "as a whole", text);
done:
    free(text);
    json_decref(config);
    return st;
}

/* The first checkpoint that had a record of measure k then, if it needs another now; NULL: no. */
static const struct plan_checkpoint *
other_record(const struct plan *p, const struct results_view *view, const json_t *models, int k)
{
    for (int64_t i = 0; i < p->n_checkpoints; i++) {
        const struct plan_checkpoint *c = &p->checkpoints[i];
        const json_t *model = plans_entry(models, plan_known_model(p, c->model));
        const json_t *then =
            plans_entry(json_object_get(model, "checkpoints"), plan_known_name(p, c));
        const char *key = json_text(then, measures[k]->plan_key, "");
        if (!c->keys[k][0] || !results_view_find(view, key)) continue;
        return results_view_find(view, c->keys[k]) ? NULL : c;
    }
    return NULL;
}

/* How finished cells were completed by measure k; the first of them. */
static enum plan_had completed_as(const struct plan *p, const struct results_view *view, int k)
{
    for (int64_t i = 0; i < p->n_checkpoints; i++)
        for (int64_t v = 0; v < p->n_variants && p->checkpoints[i].keys[k][0]; v++) {
            char key[HASH_HEX];
            plan_cell_key(p, &p->checkpoints[i], v, key);
            const json_t *from = json_object_get(results_view_find(view, key), "provenance");
            const char *had = json_text(from, measures[k]->name, "");
            if (had[0]) return plan_completed_as(p, &p->checkpoints[i], k, had);
        }
    return HAD_ALL;
}

/* *name (the caller frees) = what a row's record is of, whatever its key. */
static enum status name_of(const struct rows *r, const struct row *row, char **name, struct err *e)
{
    enum status st = OK;
    json_t *labels = json_pack("{s:s}", "type", r->kind->name);
    TRY(row_identify(r, row, labels, e));
    *name = json_dumps(labels, JSON_COMPACT | JSON_SORT_KEYS);
    ENSURE(*name, ERR_NOMEM, "out of memory for a plan");
done:
    json_decref(labels);
    return st;
}

/* Records in this state become names in the set or, the set being there (find), are looked for:
 * *found: one of them is in it. */
static enum status each_name(const struct inventory *all, enum result_state state, json_t *set,
                             bool find, bool *found, struct err *e)
{
    for (int k = 0; recorded_measures[k]; k++) {
        const struct rows *r = &all->rows[k];
        for (int64_t i = 0; i < r->n && !*found; i = rows_next(r, i)) {
            char *name;
            if (row_state(r, &r->rows[i], NULL) != state) continue;
            PASS(name_of(r, &r->rows[i], &name, e));
            if (find) *found = json_object_get(set, name) != NULL;
            if (!find) json_object_set_new(set, name, json_true());
            free(name);
        }
    }
    return OK;
}

/* Whether something that was finished by the plan of then is pending by that of now. */
static enum status is_pending_again(const struct plan *p, const struct results_view *view,
                                    bool *again, struct err *e)
{
    enum status st = OK;
    struct inventory then = {0}, now = {0};
    json_t *done = json_object();
    *again = false;
    TRY(inventory_open(results_view_plan(view), view, &then, e));
    TRY(plan_inventory(p, view, &now, e));
    TRY(each_name(&then, STATE_DONE, done, false, again, e));
    TRY(each_name(&now, STATE_PENDING, done, true, again, e));
done:
    inventory_close(&then);
    inventory_close(&now);
    json_decref(done);
    return st;
}

static enum status warn_inputs(const struct plan *p, const struct results_view *view,
                               const json_t *then, struct err *e)
{
    enum status st = OK;
    struct texts changed = {0};
    bool again = false;
    json_t *now = plan_inputs(p);
    TRY(results_view_changed(then, now, NULL, &changed, e));
    if (changed.n) TRY(is_pending_again(p, view, &again, e)); /* not if a text was put back */
    for (int64_t i = 0; i < changed.n; i++)
        if (json_is_true(json_object_get(p->past.grown, changed.text[i])))
            log_info("%s: has changed since the last run, but not what is read of it",
                     changed.text[i]);
        else if (again && !json_text(now, changed.text[i], "")[0])
            log_warn("%s: is gone since the last run: what was measured with it is pending again",
                     changed.text[i]);
        else if (again)
            log_warn(
                "%s: has changed since the last run (%.8s.. -> %.8s..): what was measured with it "
                "is pending again",
                changed.text[i], json_text(then, changed.text[i], ""),
                json_text(now, changed.text[i], ""));
done:
    json_decref(now);
    texts_free(&changed);
    return st;
}

enum status plan_warn_changed(const struct plan *p, const struct results_view *view, struct err *e)
{
    const json_t *plan = view ? results_view_plan(view) : NULL,
                 *then = json_object_get(plan, "config"), *models = json_object_get(plan, "models");
    PASS(warn_inputs(p, view, json_object_get(plan, "inputs"), e));
    for (int k = 0; plan && k < MEASURES_N; k++) {
        const bool cells = measures[k]->of_cells;
        const struct plan_checkpoint *c =
            !cells && measures[k]->plan_key ? other_record(p, view, models, k) : NULL;
        bool kept = false;
        if (c) PASS(plan_reuse_any(p, c, k, view, &kept, e));
        if (c) PASS(say_why(p, then, measures[k], measures[k]->doing, kept, e));
        const enum plan_had as = cells ? completed_as(p, view, k) : HAD_ALL;
        if (as != HAD_ALL)
            PASS(say_why(p, then, &measure_curvature,
                         as == HAD_OTHER ? "second order, with its cells," : "second order",
                         as != HAD_OTHER, e));
    }
    return OK;
}

/* Why what earlier runs have measured is pending again, by the newest plan of the journal. */
#include "plan/plan_internal.h"
#include "records/plans.h"
#include "util/log.h"
#include "util/mem.h"
#include "util/quantity.h"

/* The entry of an array whose "name" is that; NULL: none. */
static const json_t *named(const json_t *list, const char *name)
{
    size_t i;
    json_t *one;
    json_array_foreach(list, i, one)
        if (strcmp(json_text(one, "name", ""), name) == 0) return one;
    return NULL;
}

/* Of which kinds of records something that was finished by the plan of then is pending by that of
 * now; found when something differs that may be why. */
struct again {
    const struct results_view *view;
    const json_t *then, *now; /* the settings */
    bool known, any, of[RECORDED_N];
};

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

/* The keys of two objects whose values differ, but for their label. */
static enum status add_changes(char **text, const json_t *was, const json_t *now, struct err *e)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)now, key, value) {
        const json_t *old = json_object_get(was, key);
        if (strcmp(key, "name") != 0 && !json_equal(old, value))
            PASS(add_change(text, key, old, value, e));
    }
    json_object_foreach((json_t *)(uintptr_t)was, key, value) {
        if (strcmp(key, "name") != 0 && !json_object_get(now, key))
            PASS(add_change(text, key, value, NULL, e));
    }
    return OK;
}

/* Whether the first evaluation text is that of the plan of then, by whatever label. */
static bool same_first(const struct plan *p, const json_t *plan)
{
    const json_t *model = plans_entry(json_object_get(plan, "models"), plan_known_model(p, 0));
    const char *was = json_string_value(json_array_get(json_object_get(model, "texts"), 0));
    return was && p->sweep->n_evaluations > 0 && strcmp(was, p->lengths[0].texts[0]) == 0;
}

/* What a measure without a text of its own was measured on: the first evaluation text. */
static enum status add_text(char **text, const struct plan *p, const json_t *plan,
                            const json_t *section, const struct measure *of, struct err *e)
{
    const json_t *then = json_object_get(plan, "config");
    const struct data_options now = of->text ? of->text(p, 0) : (struct data_options){0};
    const json_t *data = json_object_get(section, "data"),
                 *first = json_array_get(json_object_get(then, "evaluation"), 0);
    const char *was = json_text(first, "name", "");
    const bool own = json_object_get(data, "text") || json_object_get(data, "ids");
    if (!now.name || own || strcmp(was, now.name) == 0 || same_first(p, plan)) return OK;
    return mem_append(text, e,
                      "%sit is measured on the first evaluation text, which was %s and is %s "
                      "(`data` of its section names one of its own)",
                      *text ? "; " : "", was, now.name);
}

/* Says in a line what differs between the settings of then and of now. kept: some of it is not. */
static enum status say_why(const struct plan *p, const struct again *a, const struct measure *of,
                           const char *what, bool kept, struct err *e)
{
    AUTO_FREE char *text = NULL;
    const json_t *was = json_object_get(a->then, of->name),
                 *now = json_object_get(a->now, of->name);
    if (json_is_string(was) && json_is_string(now)) { /* the label of a method */
        was = named(json_object_get(a->then, "methods"), json_string_value(was));
        now = named(json_object_get(a->now, "methods"), json_string_value(now));
    }
    PASS(add_changes(&text, was, now, e));
    PASS(add_text(&text, p, a->view->plan, was, of, e));
    if (text) log_warn("%s is pending again, %s: %s", what, kept ? "in part" : "as a whole", text);
    return OK;
}

/* Whether the checkpoint comes after another one than in the list of then. */
static bool follows_another(const struct plan *p, const struct plan_checkpoint *c,
                            const json_t *models)
{
    const json_t *list =
        json_object_get(plans_entry(models, plan_known_model(p, c->model)), "checkpoints");
    const char *before = "", *now = "";
    size_t i;
    json_t *one;
    json_array_foreach(list, i, one) {
        if (strcmp(plans_known(one), plan_known_name(p, c)) == 0) break;
        before = plans_known(one);
    }
    if (trajectory_follows(&p->sweep->models[c->model], c->row)) now = plan_known_name(p, c - 1);
    return strcmp(before, now) != 0;
}

/* Averages that were finished then and are none of this plan, since those of an entry with a stride
 * are counted back from the last checkpoint. */
static void warn_averages(const struct plan *p, int64_t i, const struct results_view *view,
                          const json_t *models)
{
    const struct model_entry *m = &p->sweep->models[i];
    const json_t *list =
        json_object_get(plans_entry(models, plan_known_model(p, i)), "checkpoints");
    size_t at;
    json_t *one;
    for (int64_t k = 0; k < m->n_averages; k++) {
        const struct average_entry *a = &m->averages[k];
        int64_t n = 0;
        json_array_foreach(list, at, one) {
            bool there =
                strcmp(json_text(one, "average", ""), a->name) != 0 ||
                result_state_of(results_view_find(view, json_text(one, "key", ""))) != STATE_DONE;
            for (int64_t r = m->n_stored; r < m->n_rows && !there; r++)
                there = strcmp(m->rows[r].checkpoint, json_text(one, "name", "")) == 0;
            n += !there;
        }
        if (n && a->stride > 1)
            log_warn("%lld finished average%s %s of %s %s no longer part of this sweep: with "
                     "stride %lld they are counted back from the last checkpoint; a table longer "
                     "by a multiple of %lld keeps them, and stride: 1 has all",
                     (long long)n, quantity_plural(n), a->name, m->name, n == 1 ? "is" : "are",
                     (long long)a->stride, (long long)a->stride);
    }
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
        if (!results_view_find(view, c->keys[k])) return c;
        if (measures[k] != &measure_movement) return NULL; /* else the others need not be alike */
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

/* Records of kind k in this state become names in the set or, the set being there (find), are
 * looked for: *found: one of them is in it. */
static enum status each_name(const struct inventory *all, int k, enum result_state state,
                             json_t *set, bool find, bool *found, struct err *e)
{
    const struct rows *r = &all->rows[k];
    for (int64_t i = 0; i < r->n && !*found; i = rows_next(r, i)) {
        char *name;
        if (row_state(r, &r->rows[i], NULL) != state) continue;
        /* What the record is of, whatever its key. */
        json_auto_t *labels = json_pack("{s:s}", "type", r->kind->name);
        PASS(row_identify(r, &r->rows[i], labels, e));
        name = json_dumps(labels, JSON_COMPACT | JSON_SORT_KEYS);
        NEED(name, ERR_NOMEM, "out of memory for a plan");
        if (find) *found = json_object_get(set, name) != NULL;
        if (!find) json_object_set_new(set, name, json_true());
        free(name);
    }
    return OK;
}

static enum status find_again(const struct plan *p, struct again *out, struct err *e)
{
    CLEANUP(inventory_close) struct inventory then = {0}, now = {0};
    const struct results_view *view = out->view;
    if (out->known) return OK;
    json_auto_t *done = json_object();
    out->known = true;
    PASS(inventory_open(view->plan, view, &then, e));
    PASS(plan_inventory(p, view, &now, e));
    for (int k = 0; recorded_measures[k]; k++) {
        PASS(each_name(&then, k, STATE_DONE, done, false, &out->of[k], e));
        PASS(each_name(&now, k, STATE_PENDING, done, true, &out->of[k], e));
        out->any = out->any || out->of[k];
    }
    return OK;
}

/* --- files --- */

/* Whether both are of a tokenizer.json that says the same. */
static bool same_meaning(const struct plan *p, const char *then, const char *now)
{
    const char *said = json_text(p->past.meanings, then, "");
    return said[0] && strcmp(said, json_text(p->past.meanings, now, "")) == 0;
}

static enum status warn_inputs(const struct plan *p, const json_t *then, struct again *again,
                               struct err *e)
{
    CLEANUP(texts_free) struct texts changed = {0};
    json_auto_t *now = plan_inputs(p);
    PASS(results_view_changed(then, now, NULL, &changed, e));
    if (changed.n) PASS(find_again(p, again, e)); /* nothing if a text was put back */
    for (int64_t i = 0; i < changed.n; i++) {
        const char *path = changed.text[i], *from = json_text(then, path, ""),
                   *to = json_text(now, path, "");
        if (json_flag(p->past.grown, path) || same_meaning(p, from, to))
            log_info("%s: has changed since the last run, but not what is read of it", path);
        else if (again->any && !to[0])
            log_warn("%s: is gone since the last run: what was measured with it is pending again",
                     path);
        else if (again->any)
            log_warn("%s: has changed since the last run (%.8s.. -> %.8s..): what was measured "
                     "with it is pending again",
                     path, from, to);
    }
    return OK;
}

/* The digest of the checkpoint's tokenizer in the keys of then; "": not known. Earlier versions say
 * only which file was all checkpoints' of a model. */
static const char *tokenizer_then(const struct plan *p, const struct plan_checkpoint *c,
                                  const json_t *plan)
{
    const json_t *models = json_object_get(plan, "models"),
                 *model = plans_entry(models, plan_known_model(p, c->model)),
                 *row = plans_entry(json_object_get(model, "checkpoints"), plan_known_name(p, c)),
                 *config = json_object_get(json_object_get(plan, "config"), "models");
    const char *file = json_text(named(config, json_text(model, "name", "")), "tokenizer", "");
    return json_text(row, plan_files[PLAN_TOKENIZER],
                     json_text(json_object_get(plan, "inputs"), file, ""));
}

/* Models that have another file as their tokenizer, a line for each. */
static enum status warn_tokenizers(const struct plan *p, const json_t *plan, struct again *again,
                                   struct err *e)
{
    const json_t *inputs = json_object_get(plan, "inputs");
    int64_t said = -1;
    for (int64_t i = 0; i < p->n_checkpoints; i++) {
        const struct plan_checkpoint *c = &p->checkpoints[i];
        const char *then = tokenizer_then(p, c, plan);
        char *path;
        if (c->model == said || !then[0] || strcmp(then, c->tokenizer) == 0) continue;
        PASS(find_again(p, again, e));
        PASS(plan_tokenizer_path(p, c, &path, e));
        if (again->any && path && !json_object_get(inputs, path)) {
            said = c->model;
            log_warn("%s: another tokenizer than in the last run (%.8s.. -> %.8s.., %s): what was "
                     "measured with it is pending again",
                     p->sweep->models[c->model].name, then, c->tokenizer, path);
        }
        free(path);
    }
    return OK;
}

/* --- settings --- */

/* Records of these kinds depend on what the sweep has under a key. */
struct dependence {
    const struct measure *of[2];
    const char *key, *what;
};

/* Says which of that differs, if some of the records are pending again. */
static enum status say_key(const struct plan *p, const struct dependence *d, struct again *again,
                           struct err *e)
{
    json_auto_t *now = json_copy(json_object_get(again->now, d->key));
    const json_t *was = json_object_get(again->then, d->key);
    AUTO_FREE char *text = NULL;
    if (was && json_object_get(was, "names") && now) /* each of them has records of its own */
        json_object_set(now, "names", json_object_get(was, "names"));
    if (json_is_object(was) && json_is_object(now))
        PASS(add_changes(&text, was, now, e));
    else if (!json_equal(was, now))
        PASS(add_change(&text, d->key, was, now, e));
    if (text) PASS(find_again(p, again, e));
    for (int i = 0; text && i < 2; i++)
        if (again->of[measure_place_of(d->of[i])]) {
            log_warn("%s are pending again: %s", d->what, text);
            break;
        }
    return OK;
}

static enum status warn_keys(const struct plan *p, struct again *again, struct err *e)
{
    static const struct dependence all[] = {
        {{&measure_cell, &measure_cell}, "calibration", "cells that calibrate"},
        {{&measure_task, &measure_baseline_task}, "tasks", "accuracies"},
        {{&measure_replicate, &measure_replicate}, "seed", "replicates"},
        {{&measure_point, &measure_point}, "seed", "points of random surfaces"}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) PASS(say_key(p, &all[i], again, e));
    return OK;
}

/* Entries of a list whose options have changed, under one label. */
static enum status warn_entries(const struct plan *p, const char *list, const char *what,
                                struct again *again, struct err *e)
{
    const json_t *then = json_object_get(again->then, list);
    size_t i;
    json_t *now;
    json_array_foreach(json_object_get(again->now, list), i, now) {
        const char *name = json_text(now, "name", "");
        const json_t *was = named(then, name);
        AUTO_FREE char *text = NULL;
        json_auto_t *known = was ? json_copy((json_t *)(uintptr_t)was) : NULL;
        if (!known) continue;
        json_object_update_existing(known, now); /* no options of later versions */
        for (const char *const *k =
                 (const char *const[]){"bits", "replicates", "text", "ids", NULL};
             *k; k++) /* cells of their own; files are told by what is in them */
            json_object_set(known, *k, json_object_get(was, *k));
        PASS(add_changes(&text, was, known, e));
        if (text) PASS(find_again(p, again, e));
        if (text && again->of[measure_place_of(&measure_cell)])
            log_warn("%s %s are pending again: %s", what, name, text);
    }
    return OK;
}

enum status plan_warn_changed(const struct plan *p, const struct results_view *view, struct err *e)
{
    const json_t *plan = view ? view->plan : NULL, *models = json_object_get(plan, "models");
    if (!plan) return OK;
    json_auto_t *config = sweep_to_json(p->sweep);
    struct again again = {.view = view, .then = json_object_get(plan, "config"), .now = config};
    PASS(warn_inputs(p, json_object_get(plan, "inputs"), &again, e));
    PASS(warn_tokenizers(p, plan, &again, e));
    PASS(warn_keys(p, &again, e));
    PASS(warn_entries(p, "methods", "cells of", &again, e));
    PASS(warn_entries(p, "evaluation", "scores on", &again, e));
    for (int64_t i = 0; i < p->sweep->n_models; i++) warn_averages(p, i, view, models);
    for (int k = 0; k < MEASURES_N; k++) {
        const bool cells = measures[k]->of_cells;
        const struct plan_checkpoint *c =
            !cells && measures[k]->plan_key ? other_record(p, view, models, k) : NULL;
        bool kept = false;
        if (c) PASS(plan_reuse_any(p, c, k, view, &kept, e));
        const bool other = c && measures[k] == &measure_movement && follows_another(p, c, models);
        if (other)
            log_warn("%s is pending again where another checkpoint comes before: that of %s is one",
                     measures[k]->doing, plan_name_of(p, c));
        else if (c)
            PASS(say_why(p, &again, measures[k], measures[k]->doing, kept, e));
        const enum plan_had as = cells ? completed_as(p, view, k) : HAD_ALL;
        if (as != HAD_ALL)
            PASS(say_why(p, &again, &measure_curvature,
                         as == HAD_OTHER ? "second order, with its cells," : "second order",
                         as != HAD_OTHER, e));
    }
    return OK;
}

enum status plan_tell_changed(const json_t *changed, struct err *e)
{
    const char *name;
    CLEANUP(faults_free) struct faults all = {0};
    json_t *label;
    AUTO_FREE char *line = NULL;
    json_object_foreach((json_t *)(uintptr_t)changed, name, label)
        PASS(faults_add(
            &all, "checkpoint", json_string_value(label),
            "weights have changed since their results were recorded; computing it again", e));
    if (all.n) PASS(faults_line(&all, 0, &line, e));
    if (line) log_warn("%s", line);
    return OK;
}

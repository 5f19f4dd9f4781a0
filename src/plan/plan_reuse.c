/* What finished records of other settings have of a record's parts (struct measure_parts,
 * docs/decisions/0037-parts-of-records.md): the keys that earlier plans gave the checkpoints'
 * records, and which of their parts are those of now. */
#include "plan/plan_internal.h"
#include "records/view.h"
#include "util/mem.h"

/* The sweep as it was: shallow, but for the methods and the sections of measures with parts. */
struct plan_then {
    struct sweep sweep;
    struct plan_checkpoint *checkpoints; // (n_checkpoints) shallow, with the keys of then
};

static void then_free(struct plan_then *t)
{
    for (int64_t i = 0; i < t->sweep.n_methods; i++)
        options_free(&method_table, &t->sweep.methods[i]);
    free(t->sweep.methods);
    for (int k = 0; k < MEASURES_N; k++) {
        if (measures[k]->parts && t->sweep.sections[k])
            options_free(&measures[k]->section, t->sweep.sections[k]);
        if (measures[k]->parts) free(t->sweep.sections[k]);
    }
    free(t->checkpoints);
}

void plan_reuse_free(struct plan *p)
{
    for (int64_t i = 0; i < p->n_then; i++) then_free(&p->then[i]);
    free(p->then);
    json_decref(p->composed);
    p->then = NULL;
    p->n_then = 0;
    p->composed = NULL;
}

enum status plan_record_own(struct plan *p, const struct plan_checkpoint *c, int k, json_t **own,
                            struct err *e)
{
    PASS(measures[k]->key(p, c, own, e));
    if (!*own || measures[k]->of_cells) return OK;
    json_object_set_new(*own, "model", json_string(plan_known_model(p, c->model)));
    json_object_set_new(*own, "checkpoint", json_string(plan_known_name(p, c)));
    if (c->recipe[0]) json_object_set_new(*own, "recipe", json_string(c->recipe));
    return OK;
}

/* *out (a new reference, NULL: none) = what the key of that checkpoint hashes with that sweep. */
static enum status own_of(const struct plan *p, const struct sweep *sweep,
                          struct plan_checkpoint *checkpoints, int64_t c, int k, json_t **out,
                          struct err *e)
{
    struct plan now = *p;
    now.sweep = sweep;
    now.checkpoints = checkpoints;
    now.missing = (struct texts){0};
    now.inputs = json_copy(p->inputs);
    const enum status st = plan_record_own(&now, &checkpoints[c], k, out, e);
    texts_free(&now.missing);
    json_decref(now.inputs);
    return st;
}

/* --- the sweep as it was --- */

static enum status read_section(const json_t *settings, int k, void **out, struct err *e)
{
    enum status st = OK;
    const struct option_table *t = &measures[k]->section;
    json_auto_t *own = json_object();
    for (int64_t i = 0; i < t->n; i++) {
        json_t *value = json_object_get(settings, t->options[i].name);
        if (value) json_object_set(own, t->options[i].name, value);
    }
    st = mem_zero(out, 1, t->size, "settings", e);
    if (st == OK) st = options_from_json(t, own, *out, e);
    return st;
}

/* ERR_FORMAT: a version that this one does not understand. */
static enum status read_then(const struct plan *p, const json_t *settings, struct plan_then *t,
                             struct err *e)
{
    const json_t *methods = json_object_get(settings, "methods"), *one;
    size_t i;
    t->sweep = *p->sweep;
    t->sweep.methods = NULL;
    t->sweep.n_methods = 0;
    for (int k = 0; k < MEASURES_N; k++)
        if (measures[k]->parts) t->sweep.sections[k] = NULL;
    PASS(mem_zero(&t->sweep.methods, (int64_t)json_array_size(methods), sizeof *t->sweep.methods,
                  "methods", e));
    json_array_foreach(methods, i, one) {
        struct method_entry *to = &t->sweep.methods[t->sweep.n_methods];
        const enum status st = options_from_json(&method_table, one, to, NULL);
        NEED(st != ERR_NOMEM, st, "out of memory for methods");
        t->sweep.n_methods += st == OK; /* another may be of an earlier version */
    }
    for (int k = 0; k < MEASURES_N; k++)
        if (measures[k]->parts) PASS(read_section(settings, k, &t->sweep.sections[k], e));
    PASS(mem_zero(&t->checkpoints, p->n_checkpoints, sizeof *t->checkpoints, "checkpoints", e));
    for (int64_t c = 0; c < p->n_checkpoints; c++) {
        t->checkpoints[c] = p->checkpoints[c];
        for (int k = 0; k < MEASURES_N; k++)
            if (measures[k]->parts) t->checkpoints[c].keys[k][0] = '\0';
    }
    return OK;
}

/* The keys, in the order of training: a warm start's contains that of the checkpoint before. */
static enum status find_keys(const struct plan *p, struct plan_then *t, struct err *e)
{
    for (int k = 0; k < MEASURES_N; k++)
        for (int64_t c = 0; measures[k]->parts && c < p->n_checkpoints; c++) {
            json_t *own;
            PASS(own_of(p, &t->sweep, t->checkpoints, c, k, &own, e));
            if (own) PASS(plan_digest(own, t->checkpoints[c].keys[k], e));
        }
    return OK;
}

/* Plans whose settings or texts are of no use now are left out. */
static enum status add_then(struct plan *p, const json_t *settings, struct err *e)
{
    struct plan_then *t = &p->then[p->n_then];
    struct err why = {0};
    enum status st = read_then(p, settings, t, &why);
    if (st == OK) st = find_keys(p, t, &why);
    if (st == OK) {
        p->n_then++;
        return OK;
    }
    then_free(t);
    *t = (struct plan_then){0};
    if (st == ERR_NOMEM) RAISE(st, "%s", why.text);
    return OK;
}

/* --- parts --- */

/* The finished record of then, if it is of the weights of now. */
static const json_t *record_then(const struct plan *p, const struct plan_then *t,
                                 const struct plan_checkpoint *c, int k,
                                 const struct results_view *view)
{
    const char *key = t->checkpoints[c - p->checkpoints].keys[k];
    const json_t *record = key[0] ? results_view_find(view, key) : NULL;
    const bool usable = result_state_of(record) == STATE_DONE &&
                        !plan_weights_changed(c, record, "weights_hash") &&
                        !plan_special_changed(c, record) &&
                        !(measures[k]->stale && measures[k]->stale(p, c, record));
    return usable ? record : NULL;
}

/* Matches the parts with those of the record of then. */
static enum status match_then(const struct plan *p, const struct plan_then *t,
                              const struct plan_checkpoint *c, int k, json_t *parts, struct err *e)
{
    const int64_t at = c - p->checkpoints;
    json_auto_t *own = NULL, *list = NULL;
    PASS(own_of(p, &t->sweep, t->checkpoints, at, k, &own, e));
    const enum status st = own ? measures[k]->parts->list(own, &list, e) : OK;
    if (st == OK) {
        /* Of parts without "from", those that the other list has are from `key`. */
        json_t *one, *had;
        size_t i, j;
        json_array_foreach(parts, i, one)
            json_array_foreach(list, j, had) {
                if (!json_object_get(one, "from") && json_equal(one, had))
                    json_object_set_new(one, "from", json_string(t->checkpoints[at].keys[k]));
            }
    }
    return st;
}

/* *parts (a new reference) = the parts of the record, and which records have them; *n: how many of
 * them one has. NULL: none. */
static enum status find_parts(const struct plan *p, const struct plan_checkpoint *c, int k,
                              const struct results_view *view, json_t **parts, int64_t *n,
                              struct err *e)
{
    json_auto_t *own = NULL, *list = NULL;
    json_t *one;
    size_t i;
    *parts = NULL;
    *n = 0;
    if (!view || p->n_then == 0) return OK;
    PASS(own_of(p, p->sweep, p->checkpoints, c - p->checkpoints, k, &own, e));
    PASS(measures[k]->parts->list(own, &list, e));
    for (int64_t t = p->n_then - 1; t >= 0; t--)
        if (record_then(p, &p->then[t], c, k, view))
            PASS(match_then(p, &p->then[t], c, k, list, e));
    json_array_foreach(list, i, one) {
        json_object_del(one, "of");
        *n += json_object_get(one, "from") != NULL;
    }
    if (*n) *parts = json_incref(list);
    return OK;
}

enum status plan_reuse(const struct plan *p, const struct plan_checkpoint *c, int k,
                       const struct results_view *view, void *setup, struct err *e)
{
    json_t *parts;
    int64_t n;
    if (!measures[k]->parts) return OK;
    PASS(find_parts(p, c, k, view, &parts, &n, e));
    const enum status st = parts ? measures[k]->parts->leave(setup, parts, e) : OK;
    json_decref(parts);
    return st;
}

enum status plan_reuse_any(const struct plan *p, const struct plan_checkpoint *c, int k,
                           const struct results_view *view, bool *any, struct err *e)
{
    json_auto_t *parts = NULL;
    int64_t n;
    *any = false;
    if (!measures[k]->parts) return OK;
    PASS(find_parts(p, c, k, view, &parts, &n, e));
    *any = parts != NULL;
    return OK;
}

struct cost plan_reuse_cost(const struct plan *p, const struct plan_model *m, const struct visit *v,
                            int k)
{
    struct cost once = m->once[k], cell = {0};
    if (m->known && measures[k]->parts && v->setup[k])
        measures[k]->cost(v->setup[k], &m->sizes, &p->costs.own[k], m->kept[k], &once, &cell);
    return once;
}

enum plan_had plan_completed_as(const struct plan *p, const struct plan_checkpoint *c, int k,
                                const char *had)
{
    struct plan now = *p;
    json_t *settings = NULL;
    if (!had[0]) return HAD_LESS;
    if (strcmp(had, c->keys[k]) == 0) return HAD_ALL;
    now.missing = (struct texts){0};
    if (measures[k]->alike && measures[k]->alike(&now, c, &settings, NULL) != OK) {
        json_drop(&settings);
    }
    const json_t *all = json_object_get(settings, had);
    const enum plan_had as = !all ? HAD_OTHER : json_is_true(all) ? HAD_ALL : HAD_LESS;
    json_decref(settings);
    texts_free(&now.missing);
    return as;
}

/* --- records that are there as a whole --- */

static enum status compose_whole(struct plan *p, const struct plan_checkpoint *c, int k,
                                 struct results_view *view, struct err *e)
{
    json_auto_t *parts = NULL;
    int64_t n;
    if (!c->keys[k][0] || result_state_of(results_view_find(view, c->keys[k])) == STATE_DONE)
        return OK;
    PASS(find_parts(p, c, k, view, &parts, &n, e));
    if (!parts || n != (int64_t)json_array_size(parts)) return OK;
    /* The view gets the record as it will be, and the plan remembers of what it is made. */
    const char *from = json_text(json_array_get(parts, 0), "from", "");
    json_auto_t *record = json_copy((json_t *)(uintptr_t)results_view_find(view, from));
    json_object_set_new(record, "key", json_string(c->keys[k]));
    json_array_append_new(p->composed, json_pack("{s:s, s:O}", "key", c->keys[k], "parts", parts));
    PASS(json_whole(e));
    return view_add_beside(view, record, e);
}

/* Whether one of the first n plans had the settings. */
static bool had_before(const json_t *plans, size_t n, const json_t *settings)
{
    while (n-- > 0)
        if (json_equal(json_object_get(json_array_get(plans, n), "settings"), settings))
            return true;
    return false;
}

enum status plan_take(struct plan *p, struct results_view *view, struct err *e)
{
    const json_t *plans = p->past.plans, *one;
    size_t i;
    PASS(plan_former(p, view, e));
    plan_reuse_free(p);
    p->composed = json_array();
    PASS(mem_zero(&p->then, (int64_t)json_array_size(plans), sizeof *p->then, "plans", e));
    json_array_foreach(plans, i, one) {
        const json_t *settings = json_object_get(one, "settings");
        if (settings && !had_before(plans, i, settings)) PASS(add_then(p, settings, e));
    }
    for (int k = 0; k < MEASURES_N; k++)
        for (int64_t c = 0; view && measures[k]->parts && c < p->n_checkpoints; c++)
            PASS(compose_whole(p, &p->checkpoints[c], k, view, e));
    return OK;
}

/* By which names keys know models and averages. A label may change: what earlier plans of the
 * results had under another one, with the same weights or of the same members, keeps the name that
 * it had there (docs/decisions/0002-cell-keys.md). */
#include "plan/plan_internal.h"
#include "records/part_files.h"
#include "records/plans.h"
#include "util/mem.h"

const char *plan_known_model(const struct plan *p, int64_t model)
{
    const char *known = p->lengths[model].known;
    return known ? known : p->sweep->models[model].name;
}

const char *plan_known_name(const struct plan *p, const struct plan_checkpoint *c)
{
    if (c->known) return c->known;
    return c->weights.kind == WEIGHTS_STORED ? plan_known_row(p, c->model, c->row)
                                             : plan_name_of(p, c);
}

/* --- models --- */

/* *name (the caller frees) = the label, or with a number behind it, where that is another one's
 * name; taken: {NAME: true}, which gets it. */
static enum status take_own(json_t *taken, const char *label, char **name, struct err *e)
{
    PASS(mem_string(name, label, e));
    for (int number = 2; json_object_get(taken, *name); number++) {
        mem_drop(name);
        PASS(mem_format(name, e, "%s~%d", label, number));
    }
    json_object_set_new(taken, *name, json_true());
    return OK;
}

static enum status take_known(struct plan *p, int64_t model, const char *known, json_t *taken,
                              struct err *e)
{
    json_object_set_new(taken, known, json_true());
    return mem_string(&p->lengths[model].known, known, e);
}

/* As the newest plan that had the label knew it. */
static enum status by_label(struct plan *p, int64_t model, const json_t *models, json_t *taken,
                            struct err *e)
{
    size_t i;
    json_t *one;
    json_array_foreach((json_t *)(uintptr_t)models, i, one)
        if (strcmp(json_text(one, "name", ""), p->sweep->models[model].name) == 0 &&
            !json_object_get(taken, plans_known(one)))
            return take_known(p, model, plans_known(one), taken, e);
    return OK;
}

static int64_t row_named(const struct model_entry *m, const char *name)
{
    for (int64_t i = 0; i < m->n_rows; i++)
        if (!m->rows[i].average && strcmp(m->rows[i].checkpoint, name) == 0) return i;
    return -1;
}

/* What speaks for a model being one of an earlier plan: checkpoints of the same names that are on
 * disk with the weights of its results, with others, or not there. */
struct evidence {
    int64_t same, other, away;
};

static enum status weigh(const struct plan *p, int64_t model, const json_t *then,
                         const struct results_view *view, struct evidence *out, struct err *e)
{
    const json_t *record = results_view_find(view, json_text(then, "key", ""));
    const int64_t row = row_named(&p->sweep->models[model], json_text(then, "name", ""));
    const char *had = json_text(json_object_get(record, "provenance"), "weights_hash", "");
    CLEANUP(weights_free) struct weights w = {0};
    char now[HASH_HEX];
    if (row < 0 || strcmp(json_text(then, "kind", ""), "average") == 0) return OK;
    PASS(plan_find_weights(p, model, row, &w, e));
    if (!weights_present(&w))
        out->away++;
    else if (had[0])
        ++*(weights_hash(&w, now, NULL) == OK && strcmp(now, had) == 0 ? &out->same : &out->other);
    return OK;
}

static bool same_text(const char *a, const char *b)
{
    return strcmp(a ? a : "", b ? b : "") == 0;
}

/* Of checkpoints that are not there, the place decides. */
static enum status is_it(const struct plan *p, int64_t model, const json_t *then,
                         const struct results_view *view, bool *is, struct err *e)
{
    const struct model_entry *m = &p->sweep->models[model];
    struct evidence found = {0};
    size_t i;
    json_t *one;
    json_array_foreach(json_object_get(then, "checkpoints"), i, one) {
        PASS(weigh(p, model, one, view, &found, e));
    }
    const bool place = same_text(m->path, json_text(then, "path", NULL)) &&
                       same_text(m->hub, json_text(then, "hub", NULL));
    *is = !found.other && (found.same || (found.away && place));
    return OK;
}

/* *view: the results, read when they are first needed. */
static enum status by_weights(struct plan *p, int64_t model, const json_t *models, json_t *taken,
                              struct results_view **view, struct err *e)
{
    size_t i;
    json_t *one;
    json_array_foreach((json_t *)(uintptr_t)models, i, one) {
        bool is;
        if (json_object_get(taken, plans_known(one))) continue;
        if (!*view) PASS(parts_view(p->sweep->results, VIEW_STATES, view, e));
        PASS(is_it(p, model, one, *view, &is, e));
        if (is) return take_known(p, model, plans_known(one), taken, e);
    }
    return OK;
}

enum status plan_names_make(struct plan *p, struct err *e)
{
    CLEANUP(results_view_close_at) struct results_view *view = NULL;
    json_auto_t *taken = json_object();
    const int64_t n = p->sweep->n_models;
    const json_t *models = NULL;
    for (size_t k = json_array_size(p->past.plans); (models = plan_past_models(p, &k, models));)
        for (int64_t i = 0; i < n; i++)
            if (!p->lengths[i].known) PASS(by_label(p, i, models, taken, e));
    for (int64_t i = 0; i < n; i++) {
        char **known = &p->lengths[i].known;
        models = NULL;
        for (size_t k = json_array_size(p->past.plans);
             !*known && (models = plan_past_models(p, &k, models));)
            PASS(by_weights(p, i, models, taken, &view, e));
        if (!*known) PASS(take_own(taken, p->sweep->models[i].name, known, e));
    }
    return json_whole(e);
}

/* --- averages --- */

/* Length of a recipe up to the label of a judge (plan_soups.c), and *rest behind it. */
static size_t until_judge(const char *recipe, const char **rest)
{
    static const char judge[] = "; judge ";
    const char *at = strstr(recipe, judge), *end = recipe + strlen(recipe);
    *rest = end;
    if (!at) return (size_t)(end - recipe);
    at += strlen(judge);
    for (int words = 0; end > at && words < 2; words += *end == ' ') end--;
    *rest = end;
    return (size_t)(at - recipe);
}

/* Whether they are the same but for a label. */
static bool recipes_alike(const char *a, const char *b)
{
    const char *rest_a, *rest_b;
    const size_t n = until_judge(a, &rest_a), m = until_judge(b, &rest_b);
    return n == m && memcmp(a, b, n) == 0 && strcmp(rest_a, rest_b) == 0;
}

static bool is_label(const struct plan *p, const struct plan_checkpoint *c, const char *name)
{
    const struct model_entry *m = &p->sweep->models[c->model];
    for (int64_t i = 0; i < m->n_rows; i++)
        if (m->rows[i].average && strcmp(m->rows[i].checkpoint, name) == 0) return true;
    return false;
}

static bool name_taken(const struct plan *p, const struct plan_checkpoint *c, const char *known)
{
    for (const struct plan_checkpoint *one = p->checkpoints; one < c; one++)
        if (one->model == c->model && one->known && strcmp(one->known, known) == 0) return true;
    return false;
}

/* The average of a list of checkpoints that c is, with its label or another; NULL: none. */
static const json_t *find_average(const struct plan *p, const struct plan_checkpoint *c,
                                  const json_t *list, bool renamed)
{
    size_t i;
    json_t *one;
    json_array_foreach((json_t *)(uintptr_t)list, i, one) {
        const char *name = json_text(one, "name", "");
        const bool named = strcmp(name, plan_name_of(p, c)) == 0;
        if (!recipes_alike(plans_recipe(one), c->recipe)) continue;
        if (renamed ? !is_label(p, c, name) && !name_taken(p, c, plans_known(one)) : named)
            return one;
    }
    return NULL;
}

enum status plan_name_average(const struct plan *p, struct plan_checkpoint *c, struct err *e)
{
    const json_t *found = NULL;
    if (!c->recipe[0]) return OK;
    for (int renamed = 0; renamed < 2 && !found; renamed++) {
        const json_t *models = NULL;
        for (size_t k = json_array_size(p->past.plans);
             !found && (models = plan_past_models(p, &k, models));)
            found = find_average(
                p, c,
                json_object_get(plans_entry(models, plan_known_model(p, c->model)), "checkpoints"),
                renamed);
    }
    if (!found) return OK;
    PASS(mem_string(&c->known, plans_known(found), e));
    free(c->recipe);
    return mem_string(&c->recipe, plans_recipe(found), e);
}

/* --- stored checkpoints, whose labels may change as those of models --- */

const char *plan_known_row(const struct plan *p, int64_t model, int64_t row)
{
    char **names = p->lengths[model].rows;
    return names && names[row] ? names[row] : p->sweep->models[model].rows[row].checkpoint;
}

/* What is being found of one model. */
struct search {
    struct plan *p;
    int64_t model;
    char **names;  // (n_stored) NULL: not found yet
    json_t *rows;  /* {LABEL: row} */
    json_t *taken; /* {NAME: true} */
    int64_t left;
    struct results_view **view; /* read when it is first needed */
};

static enum status take(struct search *s, int64_t row, const char *name, struct err *e)
{
    s->left--;
    json_object_set_new(s->taken, name, json_true());
    return mem_string(&s->names[row], name, e);
}

static bool is_stored(const json_t *then)
{
    return strcmp(json_text(then, "kind", ""), "average") != 0;
}

/* As the plan knew the labels. */
static enum status row_by_label(struct search *s, const json_t *list, struct err *e)
{
    size_t i;
    json_t *then;
    json_array_foreach(list, i, then) {
        const json_t *row = json_object_get(s->rows, json_text(then, "name", ""));
        const int64_t at = json_integer_value(row);
        if (row && is_stored(then) && !s->names[at] &&
            !json_object_get(s->taken, plans_known(then)))
            PASS(take(s, at, plans_known(then), e));
    }
    return OK;
}

/* The row without a name that has the weights of the record now; -1: none. */
static enum status find_row(struct search *s, const json_t *record, json_t *digests, int64_t *row,
                            struct err *e)
{
    const struct model_entry *m = &s->p->sweep->models[s->model];
    const char *had = json_text(json_object_get(record, "provenance"), "weights_hash", "");
    *row = -1;
    for (int64_t i = 0; had[0] && i < m->n_stored && *row < 0; i++) {
        const char *label = m->rows[i].checkpoint;
        if (s->names[i]) continue;
        if (!json_object_get(digests, label)) {
            CLEANUP(weights_free) struct weights w = {0};
            char now[HASH_HEX] = "";
            PASS(plan_find_weights(s->p, s->model, i, &w, e));
            if (weights_present(&w) && weights_hash(&w, now, NULL) != OK) now[0] = '\0';
            json_object_set_new(digests, label, json_string(now));
        }
        if (strcmp(json_text(digests, label, ""), had) == 0) *row = i;
    }
    return OK;
}

/* Checkpoints of the plan whose labels are gone, by their weights. */
static enum status row_by_weights(struct search *s, const json_t *list, json_t *digests,
                                  struct err *e)
{
    size_t i;
    json_t *then;
    json_array_foreach(list, i, then) {
        int64_t row;
        if (!is_stored(then) || json_object_get(s->rows, json_text(then, "name", "")) ||
            json_object_get(s->taken, plans_known(then)))
            continue;
        if (!*s->view) PASS(parts_view(s->p->sweep->results, VIEW_STATES, s->view, e));
        PASS(
            find_row(s, results_view_find(*s->view, json_text(then, "key", "")), digests, &row, e));
        if (row >= 0) PASS(take(s, row, plans_known(then), e));
    }
    return OK;
}

static enum status find_all(struct search *s, struct err *e)
{
    const struct model_entry *m = &s->p->sweep->models[s->model];
    const char *known = plan_known_model(s->p, s->model);
    const json_t *models = NULL;
    json_auto_t *digests = json_object();
    for (int64_t i = 0; i < m->n_stored; i++)
        json_object_set_new(s->rows, m->rows[i].checkpoint, json_integer((json_int_t)i));
    /* A newer plan may have had an older one's label under another. */
    for (size_t k = json_array_size(s->p->past.plans);
         s->left && (models = plan_past_models(s->p, &k, models));) {
        const json_t *list = json_object_get(plans_entry(models, known), "checkpoints");
        PASS(row_by_label(s, list, e));
        if (s->left) PASS(row_by_weights(s, list, digests, e));
    }
    for (int64_t i = 0; i < m->n_stored; i++)
        if (!s->names[i]) PASS(take_own(s->taken, m->rows[i].checkpoint, &s->names[i], e));
    return json_whole(e);
}

enum status plan_rows_make(struct plan *p, struct err *e)
{
    CLEANUP(results_view_close_at) struct results_view *view = NULL;
    for (int64_t i = 0; i < p->sweep->n_models && json_array_size(p->past.plans); i++) {
        const int64_t n = p->sweep->models[i].n_stored;
        char ***names = &p->lengths[i].rows;
        json_auto_t *rows = json_object(), *taken = json_object();
        PASS(mem_zero(names, n, sizeof **names, "checkpoints", e));
        struct search s = {p, i, *names, rows, taken, n, &view};
        PASS(find_all(&s, e));
    }
    return OK;
}

/* By which names keys know stored checkpoints. As of models (plan_names.c), a label may change. */
#include "plan/plan_internal.h"
#include "records/part_files.h"
#include "records/plans.h"
#include "util/mem.h"

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
static enum status by_label(struct search *s, const json_t *list, struct err *e)
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
static enum status by_weights(struct search *s, const json_t *list, json_t *digests, struct err *e)
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
        PASS(by_label(s, list, e));
        if (s->left) PASS(by_weights(s, list, digests, e));
    }
    for (int64_t i = 0; s->left && i < m->n_stored; i++)
        if (!s->names[i]) {
            /* A label that another one's name is cannot be its own. */
            const char *label = s->p->sweep->models[s->model].rows[i].checkpoint;
            AUTO_FREE char *name = NULL;
            PASS(mem_string(&name, label, e));
            for (int n = 2; json_object_get(s->taken, name); n++) {
                mem_drop(&name);
                PASS(mem_format(&name, e, "%s~%d", label, n));
            }
            PASS(take(s, i, name, e));
        }
    return json_whole(e);
}

enum status plan_rows_make(struct plan *p, struct err *e)
{
    enum status st = OK;
    CLEANUP(results_view_close_at) struct results_view *view = NULL;
    for (int64_t i = 0; st == OK && i < p->sweep->n_models && json_array_size(p->past.plans); i++) {
        const int64_t n = p->sweep->models[i].n_stored;
        struct search s = {.p = p,
                           .model = i,
                           .left = n,
                           .rows = json_object(),
                           .taken = json_object(),
                           .view = &view};
        st = mem_zero(&s.names, n, sizeof *s.names, "checkpoints", e);
        if (st == OK) st = find_all(&s, e);
        p->lengths[i].rows = s.names;
        json_decref(s.rows);
        json_decref(s.taken);
    }
    return st;
}

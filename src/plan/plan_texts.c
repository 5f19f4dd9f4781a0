/* The evaluation texts of a plan: their digests, by which records name them, and the keys of
 * earlier versions, which hashed them. */
#include "engine/wanted.h"
#include "plan/plan_internal.h"
#include "quant/quant.h"
#include "records/scores.h"
#include "util/mem.h"

json_t *plan_identity(const struct data_options *resolved, const char *hash)
{
    json_t *json = options_to_key(&data_table, resolved);
    json_object_del(json, "name");
    json_object_del(json, "preset"); /* its values are options of d */
    json_object_del(json, "text");
    json_object_del(json, "ids");
    if (resolved->ids) json_object_set_new(json, "ids", json_string(strrchr(resolved->ids, ':')));
    json_object_set_new(json, "hash", json_string(hash));
    return json;
}

enum status plan_texts_make(struct plan *p, int64_t model, struct err *e)
{
    const struct sweep *s = p->sweep;
    struct plan_lengths *l = &p->lengths[model];
    PASS(mem_zero(&l->texts, s->n_evaluations, sizeof *l->texts, "texts", e));
    for (int64_t i = 0; i < s->n_evaluations; i++) {
        json_t *own;
        PASS(plan_data_identity(p, model, &s->evaluations[i], &own, e));
        PASS(plan_digest(own, l->texts[i], e));
    }
    return OK;
}

/* *list = the evaluation entries of an earlier version's plan as its keys hashed them for the
 * model, *texts = {label: digest}. */
static enum status former_texts(const struct plan *p, int64_t model, const json_t *plan,
                                json_t **list, json_t **texts, struct err *e)
{
    enum status st = OK;
    struct data_options d = {0};
    const json_t *entry;
    size_t i;
    *list = json_array();
    *texts = json_object();
    json_array_foreach(json_object_get(plan, "evaluation"), i, entry) {
        char digest[HASH_HEX];
        TRY(options_from_json(&data_table, entry, &d, e));
        const struct data_options resolved = plan_data(p, model, &d);
        json_t *one = plan_identity(&resolved, json_text(json_object_get(plan, "inputs"),
                                                         d.text  ? d.text
                                                         : d.ids ? d.ids
                                                                 : "",
                                                         ""));
        st = plan_digest(json_incref(one), digest, e);
        json_object_set_new(*texts, d.name, json_string(digest));
        json_object_set_new(one, "name", json_string(d.name));
        json_array_append_new(*list, one);
        options_free(&data_table, &d);
        d = (struct data_options){0};
        TRY(st);
    }
done:
    options_free(&data_table, &d);
    return st;
}

enum status plan_former(struct plan *p, struct results_view *view, struct err *e)
{
    const json_t *plans = view ? view->old_plans : NULL, *one;
    json_auto_t *record = NULL;
    size_t k;
    /* The keys when evaluation texts were in keys, by a plan of that time. */
    json_array_foreach(plans, k, one)
        for (int64_t i = 0; i < p->n_checkpoints; i++) {
            struct plan_checkpoint *c = &p->checkpoints[i];
            json_auto_t *list = NULL, *texts = NULL;
            char was[HASH_HEX];
            PASS(former_texts(p, c->model, one, &list, &texts, e));
            PASS(plan_key(p, c, json_incref(list), was, e));
            if (!c->former) c->former = json_object();
            json_object_set(c->former, was, texts);
        }
    if (view && (json_array_size(plans) || json_object_size(p->former))) {
        PASS(plan_record(p, "", &record, e));
        PASS(results_view_former(view, record, e));
    }
    if (view) PASS(plan_weights_back(p, view, e));
    return OK;
}

/* --- in visits --- */

enum result_state plan_texts_state(const struct plan *p, const struct plan_checkpoint *c,
                                   const json_t *record)
{
    enum result_state state = result_state_of(record);
    for (int64_t i = 0; state == STATE_DONE && i < p->sweep->n_evaluations; i++)
        state = scores_state(record, p->lengths[c->model].texts[i]);
    return state;
}

enum status plan_texts_lacking(const struct plan *p, const struct plan_checkpoint *c,
                               const json_t *record, const struct plan_choice *choice,
                               const struct visit *v, char **lines, struct err *e)
{
    if (result_state_of(record) != STATE_DONE) return OK;
    for (int64_t i = 0; i < p->sweep->n_evaluations; i++) {
        const char *text = p->lengths[c->model].texts[i];
        const enum result_state state = scores_state(record, text);
        if (state == STATE_FAILED && !choice->retry_failed) {
            char now[HASH_HEX];
            visit_text_stamp(v, i, now);
            if (strcmp(now, json_text(scores_find(record, text), "inputs", "")) == 0) continue;
        }
        if (state != STATE_DONE) PASS(wanted_add(lines, measure_cell.name, "text", text, e));
    }
    return OK;
}

/* Index of the digest at the start of `line` among the plan's; -1: none. */
static int64_t text_at(const struct plan *p, int64_t model, const char *line)
{
    for (int64_t i = 0; i < p->sweep->n_evaluations; i++)
        if (strncmp(line, p->lengths[model].texts[i], HASH_HEX - 1) == 0) return i;
    return -1;
}

enum status plan_texts_drawn(const struct plan *p, const struct plan_checkpoint *c,
                             const json_t *record, struct visit *v, bool *again, struct err *e)
{
    const char *drawn = json_text(json_object_get(record, "provenance"), "drawn", "");
    const int64_t n = (int64_t)(strlen(drawn) + 1) / HASH_HEX;
    *again = false;
    if (result_state_of(record) != STATE_DONE || plan_texts_state(p, c, record) == STATE_DONE)
        return OK;
    *again = v->n_drawn && strcmp(v->drawn_texts, drawn) != 0;
    for (int64_t i = 0; i < n && !*again; i++)
        *again = text_at(p, c->model, drawn + i * HASH_HEX) < 0;
    if (*again || v->n_drawn || n == 0) return OK;
    PASS(mem_string(&v->drawn_texts, drawn, e));
    PASS(mem_zero(&v->drawn, n, sizeof *v->drawn, "texts", e));
    for (; v->n_drawn < n; v->n_drawn++) {
        const int64_t at = text_at(p, c->model, drawn + v->n_drawn * HASH_HEX);
        const struct data_options d = plan_data(p, c->model, &p->sweep->evaluations[at]);
        PASS(options_copy(&data_table, &d, &v->drawn[v->n_drawn], e));
    }
    return OK;
}

static bool lacks(const struct visit *v, const char *text)
{
    bool any = wanted_has(v->records, text);
    for (int64_t i = 0; i < v->n_variants; i++)
        any = any || wanted_has(v->variants[i].records, text);
    return any;
}

void plan_texts_keep(struct visit *v)
{
    int64_t n = 0, wanted = 0;
    bool all = (!v->cells_only && !v->scored) || visit_observes(v);
    char text[HASH_HEX];
    for (int64_t i = 0; i < v->n_variants; i++) all = all || !v->variants[i].scored;
    for (int64_t i = 0; i < v->n_evaluations; i++)
        wanted += visit_text_key(v, i, text) && lacks(v, text);
    if (all || wanted == 0) return;
    for (int64_t i = 0; i < v->n_evaluations; i++) {
        visit_text_key(v, i, text);
        if (!lacks(v, text)) {
            options_free(&data_table, &v->evaluations[i]);
            continue;
        }
        memcpy(v->texts + n * HASH_HEX, text, HASH_HEX - 1); /* behind it, a line's end */
        v->evaluations[n++] = v->evaluations[i];
    }
    v->n_evaluations = n;
    v->texts[n * HASH_HEX - 1] = '\0';
}

enum status plan_texts_stored(const struct plan *p, const struct plan_checkpoint *c,
                              int64_t variant, const char *lines, char **path, struct err *e)
{
    struct wanted one;
    while (wanted_next(&lines, &one))
        if (!measure_find(one.measure)->scored) return OK;
    for (int k = 0; k < MEASURES_N && !*path; k++)
        if (measures[k]->stored) PASS(measures[k]->stored(p, c, variant, path, e));
    return OK;
}

enum status plan_texts_read(struct variant *to, char **path, struct err *e)
{
    free(to->method.path);
    to->method.path = *path;
    *path = NULL;
    if (!to->method.path) return OK;
    to->method.n_bits = 1; /* as an entry of the sweep says its own width */
    to->method.bits[0] = to->bits;
    mem_drop(&to->method.method);
    return mem_string(&to->method.method, quant_stored.name, e);
}

void plan_count_records(const char *records, struct plan_visits *out)
{
    out->n_texts += wanted_count(records, measure_cell.name, NULL);
    for (int k = 0; k < MEASURES_N; k++)
        if (measures[k] != &measure_cell)
            out->to_make[k] += wanted_count(records, measures[k]->name, NULL);
}

struct plan_costs plan_texts_costs(const struct plan *p, int64_t model, const struct visit *v)
{
    struct plan_costs c = p->costs; /* shallow */
    bool asks = wanted_count(v->records, measure_baseline_task.name, NULL) > 0;
    for (int64_t i = 0; i < v->n_variants; i++)
        asks = asks || wanted_count(v->variants[i].records, measure_task.name, NULL) > 0;
    c.evaluation = (struct cost_tokens){0};
    for (int64_t i = 0; i < p->sweep->n_evaluations; i++)
        if (v->texts && strstr(v->texts, p->lengths[model].texts[i]))
            cost_tokens_add(&c.evaluation, &c.texts[i]);
    for (int k = 0; asks && k < MEASURES_N; k++)
        if (measures[k]->tokens) cost_tokens_add(&c.evaluation, &c.own[k]);
    return c;
}

#include "run/merge_source.h"
#include "records/rows.h"
#include "records/scores.h"
#include "records/view.h"
#include "records/weights_read.h"
#include "util/mem.h"

void merge_source_free(struct merge_source *s)
{
    free(s->name);
    journal_close(s->journal);
    results_view_close(s->view);
    json_decref(s->plan);
    json_decref(s->end);
    json_decref(s->former);
    for (int i = 0; i < CLASS_N; i++) json_decref(s->places[i]);
}

static enum status put(struct merge_source *s, enum merge_class class, const char *key, int64_t at,
                       struct err *e)
{
    json_object_set_new(s->places[class], key, json_integer((json_int_t)at));
    return json_whole(e);
}

/* As view_add: of a key the newest counts, but none that has failed after one that is done. */
static enum status add_result(struct merge_source *s, const char *key, int64_t at,
                              const json_t *head, json_t *done, struct err *e)
{
    if (result_state_of(head) == STATE_DONE)
        json_object_set_new(done, key, json_true());
    else if (json_object_get(done, key))
        return OK;
    return put(s, CLASS_RESULT, key, at, e);
}

/* done: the keys of results that are done. */
static enum status add_line(struct merge_source *s, int64_t at, const json_t *head, json_t *done,
                            struct err *e)
{
    const char *type = json_text(head, "type", ""), *key = json_text(head, "key", NULL);
    json_decref(s->end);
    s->end = strcmp(type, "end") == 0 ? json_deep_copy(head) : NULL;
    if (strcmp(type, "plan") == 0) {
        json_decref(s->plan);
        s->plan = json_incref((json_t *)(uintptr_t)head);
        return former_learn(s->former, s->plan, e);
    }
    if (!key) return OK;
    if (strcmp(type, "completion") == 0) {
        AUTO_FREE char *name = NULL;
        const char *part;
        json_t *digest;
        PASS(mem_string(&name, key, e));
        enum status st = OK;
        json_object_foreach(json_object_get(head, "completes"), part, digest) {
            if (st == OK) st = mem_append(&name, e, " %s", part);
        }
        if (st == OK) st = put(s, CLASS_COMPLETION, name, at, e);
        return st;
    }
    if (strcmp(type, "loss") == 0) return put(s, CLASS_LOSS, key, at, e);
    return measure_find(type) ? add_result(s, key, at, head, done, e) : OK;
}

/* chosen: of other weights than these, which a plan has found on disk again, nothing counts; NULL:
 * all does. *again: whether a plan has. */
static enum status scan_lines(struct merge_source *s, json_t *weights, const json_t *chosen,
                              bool *again, struct err *e)
{
    json_auto_t *head = NULL, *done = json_object();
    CLEANUP(texts_free) struct texts without = {0};
    PASS(view_leave_out(VIEW_STATES, NULL, &without, e));
    for (int64_t i = 0; i < journal_n(s->journal); i++) {
        PASS(journal_read(s->journal, i, texts_list(&without), &head, e));
        weights_read_learn(weights, head);
        *again =
            *again || (strcmp(json_text(head, "type", ""), "plan") == 0 && weights_read_any(head));
        if (!chosen || weights_read_agree(chosen, head)) PASS(add_line(s, i, head, done, e));
        json_drop(&head);
    }
    return OK;
}

static enum status scan_journal(struct merge_source *s, json_t *weights, struct err *e)
{
    bool again = false;
    PASS(scan_lines(s, weights, NULL, &again, e));
    if (!again) return OK;
    json_auto_t *chosen = json_deep_copy(weights);
    json_object_clear(s->places[CLASS_RESULT]);
    json_object_clear(s->places[CLASS_COMPLETION]);
    return scan_lines(s, weights, chosen, &again, e);
}

static enum status scan_cube(struct merge_source *s, json_t *weights, struct err *e)
{
    CLEANUP(inventory_close) struct inventory all = {0};
    s->plan = json_incref(s->view->plan);
    s->end = json_incref(s->view->end);
    PASS(inventory_open(s->plan, s->view, &all, e));
    for (int k = 0; recorded_measures[k]; k++) {
        const struct rows *r = &all.rows[k];
        for (int64_t i = 0; i < r->n; i = rows_next(r, i))
            if (r->rows[i].record) {
                weights_read_learn(weights, r->rows[i].record);
                PASS(put(s, CLASS_RESULT, r->rows[i].key, -1, e));
            }
    }
    return OK;
}

enum status merge_source_open(struct merge_source *s, const char *path, json_t *weights,
                              struct err *e)
{
    bool cube = false;
    json_auto_t *own = json_object();
    s->former = json_object();
    for (int i = 0; i < CLASS_N; i++) s->places[i] = json_object();
    PASS(mem_string(&s->name, path, e));
    PASS(results_is_hdf5(path, &cube, e));
    if (cube) {
        PASS(results_view_open(path, VIEW_ALL, NULL, &s->view, e));
    } else {
        PASS(journal_open_beside(path, &s->journal, e));
        journal_warn(s->journal);
    }
    PASS(cube ? scan_cube(s, own, e) : scan_journal(s, own, e));
    weights_read_join(weights, own);
    return OK;
}

enum status merge_source_read(const struct merge_source *s, enum merge_class class, const char *key,
                              json_t **out, struct err *e)
{
    const json_t *at = json_object_get(s->places[class], key);
    if (s->journal) return journal_read(s->journal, json_integer_value(at), NULL, out, e);
    *out = json_incref((json_t *)(uintptr_t)results_view_find(s->view, key));
    return OK;
}

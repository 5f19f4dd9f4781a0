/* What a view takes from other journals. */
#include "records/complete.h"
#include "records/measures.h"
#include "records/scores.h"
#include "records/view.h"
#include "records/weights_read.h"
#include <string.h>

enum status view_add_beside(struct results_view *v, const json_t *record, struct err *e)
{
    if (!weights_read_agree(v->weights, record)) return OK;
    json_t *end = json_incref(v->end);
    enum status st = view_add(v, record, e);
    json_decref(v->end);
    v->end = end;
    return st;
}

/* Whether a record of another journal is taken. */
static bool wants_elsewhere(const struct results_view *v, const json_t *record)
{
    const char *type = json_text(record, "type", ""), *key = json_text(record, "key", NULL);
    if (!key) return false;
    const json_t *own = json_object_get(v->records, key);
    if (strcmp(type, "completion") == 0) return completion_adds(own, record);
    if (!measure_find(type)) return false;
    return !own || (result_state_of(own) != STATE_DONE && result_state_of(record) == STATE_DONE);
}

/* Hands it to the sink, if it is taken, and adds it to the view. */
static enum status take(struct results_view *v, const json_t *record, const json_t *whole,
                        const struct view_sink *sink, struct err *e)
{
    if (!weights_read_agree(v->weights, record)) return OK;
    if (sink) PASS(sink->take(sink->context, whole, e));
    return view_add_beside(v, record, e);
}

/* What it has of texts that the view's record of its key lacks. */
static enum status add_scores(struct results_view *v, const json_t *record,
                              const struct view_sink *sink, struct err *e)
{
    json_t *more = NULL;
    const char *key = json_text(record, "key", NULL);
    if (!key || !measure_find(json_text(record, "type", ""))) return OK;
    PASS(scores_completion(json_object_get(v->records, key), record, &more, e));
    const enum status st = more ? take(v, more, more, sink, e) : OK;
    json_decref(more);
    return st;
}

enum status view_add_elsewhere(struct results_view *v, struct journal *j, enum view_content content,
                               const struct view_sink *sink, json_t *late, struct err *e)
{
    CLEANUP(texts_free) struct texts without = {0};
    json_auto_t *raw = NULL, *record = NULL, *weights = json_object();
    PASS(view_leave_out(content, NULL, &without, e));
    /* First the newest weights and the former keys of the journal. */
    for (int64_t i = 0; i < journal_n(j); i++) {
        PASS(journal_read(j, i, texts_list(&without), &record, e));
        weights_read_learn(weights, record);
        if (strcmp(json_text(record, "type", ""), "plan") == 0)
            PASS(former_plan(v->old_plans, record, e));
        json_drop(&record);
    }
    if (weights_read_join(v->weights, weights)) view_leave_out_stale(v);
    PASS(json_whole(e));
    for (int64_t i = 0; i < journal_n(j); i++) {
        PASS(journal_read(j, i, texts_list(&without), &raw, e));
        PASS(former_record(v->former, raw, &record, e));
        /* record: what the view takes of line i. */
        json_auto_t *whole = NULL;
        const bool completion = strcmp(json_text(record, "type", ""), "completion") == 0;
        const bool wanted = !completion && wants_elsewhere(v, record);
        if (sink)
            PASS(view_read_line(v, j, i, &whole, e));
        else
            whole = json_incref(record);
        if (completion)
            json_array_append(late, whole);
        else if (!weights_read_agree(v->weights, record))
            view_remember(v, json_text(record, "key", ""), record);
        else if (wanted)
            PASS(take(v, record, whole, sink, e));
        else
            PASS(add_scores(v, whole, sink, e));
        PASS(json_whole(e));
        json_drop(&raw);
        json_drop(&record);
    }
    return OK;
}

enum status view_add_late(struct results_view *v, const struct view_sink *sink, const json_t *late,
                          struct err *e)
{
    const json_t *record;
    size_t i;
    json_auto_t *own = v->waiting; /* in the view's journal already: not for the sink */
    v->waiting = json_array();
    json_array_foreach(own, i, record)
        if (wants_elsewhere(v, record)) PASS(take(v, record, record, NULL, e));
    json_array_foreach(late, i, record)
        if (wants_elsewhere(v, record)) PASS(take(v, record, record, sink, e));
    return json_whole(e);
}

/* Results of different weights of one checkpoint: the newest count, or those that a plan has found
 * on disk again (docs/decisions/0002-cell-keys.md). */
#include "records/results.h"
#include "records/view.h"
#include "records/weights_read.h"
#include <string.h>

void view_remember(struct results_view *v, const char *key, json_t *record)
{
    json_t *list = json_object_get(v->others, key);
    if (result_state_of(record) != STATE_DONE || !weights_read_any(record)) return;
    if (!list) json_object_set_new(v->others, key, list = json_array());
    json_array_append_new(
        list, json_pack("{s:O, s:O*}", "record", record, "lines", json_object_get(v->lines, key)));
}

/* Of those of the key the last that was made from the newest weights. */
static void take_back(struct results_view *v, const char *key, json_t *list)
{
    for (size_t i = json_array_size(list); i-- > 0;) {
        const json_t *one = json_array_get(list, i);
        json_t *record = json_object_get(one, "record"), *lines = json_object_get(one, "lines");
        if (!weights_read_agree(v->weights, record)) continue;
        json_object_set(v->records, key, record);
        if (lines) json_object_set(v->lines, key, lines);
        json_object_del(v->stale, key);
        json_array_remove(list, i);
        return;
    }
}

void view_leave_out_stale(struct results_view *v)
{
    const char *key;
    json_t *record, *list;
    void *next;
    json_object_foreach_safe(v->records, next, key, record) {
        if (weights_read_agree(v->weights, record)) continue;
        view_remember(v, key, record);
        json_object_set_new(v->stale, key, json_true());
        json_object_del(v->lines, key);
        json_object_del(v->records, key);
    }
    json_object_foreach(v->others, key, list) {
        if (result_state_of(json_object_get(v->records, key)) != STATE_DONE)
            take_back(v, key, list);
    }
}

const json_t *results_view_other(const struct results_view *v, const char *key,
                                 const char *weights_hash)
{
    const json_t *list = json_object_get(v->others, key);
    for (size_t i = json_array_size(list); i-- > 0;) {
        const json_t *record = json_object_get(json_array_get(list, i), "record");
        const char *had = json_text(json_object_get(record, "provenance"), "weights_hash", "");
        if (strcmp(had, weights_hash) == 0) return record;
    }
    return NULL;
}

void results_view_choose(struct results_view *v, const json_t *plan)
{
    if (weights_read_learn(v->weights, plan)) view_leave_out_stale(v);
}

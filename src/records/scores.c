#include "records/scores.h"
#include "records/axes.h"
#include "records/complete.h"
#include "records/measures.h"
#include <stdio.h>
#include <string.h>

enum { NAME = 5 + HASH_HEX };

static void name_of(const char *text, char out[NAME])
{
    snprintf(out, NAME, "text %s", text);
}

static bool is_text(const char *name)
{
    return strncmp(name, "text ", 5) == 0;
}

void scores_note(json_t *to, const char *text, const char *label, bool added, const char *failure,
                 const char *inputs)
{
    char name[NAME];
    name_of(text, name);
    json_t *one = json_pack("{s:s, s:s*, s:s*}", "name", label, "message", failure, "inputs",
                            failure ? inputs : NULL);
    if (added) json_object_set_new(one, "added", json_true());
    json_object_set_new(to, name, one);
}

const json_t *scores_find(const json_t *record, const char *text)
{
    char name[NAME];
    name_of(text, name);
    return json_object_get(json_object_get(record, "provenance"), name);
}

enum result_state scores_state(const json_t *record, const char *text)
{
    const json_t *one = scores_find(record, text);
    if (!one) return STATE_PENDING;
    return json_object_get(one, "message") ? STATE_FAILED : STATE_DONE;
}

bool scores_are(const json_t *record, const char (*texts)[HASH_HEX], int64_t n)
{
    const char *name;
    json_t *one;
    int64_t had = 0;
    json_object_foreach(json_object_get(record, "provenance"), name, one) {
        if (is_text(name) && !json_object_get(one, "added")) had++;
    }
    for (int64_t i = 0; i < n; i++) {
        const json_t *own = scores_find(record, texts[i]);
        if (!own || json_object_get(own, "added")) return false;
    }
    return had == n;
}

enum status scores_completion(const json_t *record, const json_t *other, json_t **out,
                              struct err *e)
{
    static const char *const labels[] = {"key",  "fingerprint", "model",      "checkpoint",
                                         "bits", "quantizer",   "provenance", NULL};
    const char *name;
    json_t *one, *completes, *datasets, *all;
    *out = NULL;
    if (result_state_of(other) != STATE_DONE || !completion_fits(record, other)) return OK;
    all = json_pack("{s:s, s:{}, s:{}, s:{}}", "type", "completion", "values", "datasets",
                    "completes");
    NEED(all, ERR_NOMEM, "out of memory for a record");
    completes = json_object_get(all, "completes");
    datasets = json_object_get(all, "datasets");
    for (int i = 0; labels[i]; i++)
        json_object_set(all, labels[i], json_object_get(other, labels[i]));
    json_object_foreach(json_object_get(other, "provenance"), name, one) {
        const char *text = name + 5;
        if (!is_text(name) || scores_state(other, text) != STATE_DONE ||
            scores_state(record, text) == STATE_DONE)
            continue;
        scores_note(completes, text, json_text(one, "name", ""), true, NULL, NULL);
        json_t *numbers = json_object_get(json_object_get(other, "datasets"), text);
        if (numbers) json_object_set(datasets, text, numbers);
    }
    if (json_object_size(completes) == 0) {
        json_drop(&all);
    }
    *out = all;
    return OK;
}

/* --- keys of earlier versions --- */

static void map_key(json_t *map, const char *former, const char *now, json_t *texts)
{
    if (strcmp(former, now) != 0)
        json_object_set_new(map, former, json_pack("{s:s, s:O*}", "key", now, "texts", texts));
}

static bool has_former(const json_t *plan)
{
    const json_t *model, *checkpoint;
    size_t m, c;
    json_array_foreach(json_object_get(plan, "models"), m, model) {
        json_array_foreach(json_object_get(model, "checkpoints"), c, checkpoint) {
            if (json_object_get(checkpoint, "former")) return true;
        }
    }
    return false;
}

enum status former_learn(json_t *map, const json_t *plan, struct err *e)
{
    CLEANUP(axes_free) struct axes a = {0};
    const char *key;
    json_t *value;
    if (has_former(plan)) PASS(axes_of_plan(plan, &a, e));
    json_object_foreach(json_object_get(plan, "former_keys"), key, value) {
        map_key(map, json_string_value(value), key, NULL);
    }
    for (int64_t m = 0; a.models && m < a.labels[AXIS_MODEL].n; m++)
        for (int64_t c = 0; c < a.models[m].n; c++) {
            const struct axis_checkpoint *at = &a.models[m].checkpoints[c];
            json_object_foreach(json_object_get(at->plan, "former"), key, value) {
                /* The keys of the checkpoint, its cells and their replicates. */
                map_key(map, key, at->key, value);
                for (int64_t i = 0; i < a.n_variants; i++) {
                    char cells[2][HASH_HEX], keys[2][HASH_HEX];
                    results_cell_key(key, axes_variant_key(&a, m, i), cells[0]);
                    results_cell_key(at->key, axes_variant_key(&a, m, i), cells[1]);
                    map_key(map, cells[0], cells[1], value);
                    for (int64_t r = 1; r < a.variants[i].replicates; r++) {
                        for (int k = 0; k < 2; k++)
                            results_replicate_key(cells[k], r, a.seed, keys[k]);
                        map_key(map, keys[0], keys[1], value);
                    }
                }
            }
        }
    return json_whole(e);
}

/* Its numbers by the digests of the texts in place of their labels. */
static void name_texts(json_t *record, const json_t *texts)
{
    const char *label;
    json_t *one, *from = json_copy(json_object_get(record, "provenance"));
    const bool replicate = strcmp(json_text(record, "type", ""), measure_replicate.name) == 0;
    json_object_foreach((json_t *)(uintptr_t)texts, label, one) {
        const char *had = json_text(from, "drawn", "");
        scores_note(from, json_string_value(one), label, false, NULL, NULL);
        if (replicate)
            json_object_set_new(
                from, "drawn",
                json_sprintf("%s%s%s", had, had[0] ? "\n" : "", json_string_value(one)));
    }
    json_object_set_new(record, "provenance", from);
    const json_t *had = json_object_get(record, "datasets");
    if (!had) return;
    json_t *now = json_object();
    json_object_foreach((json_t *)(uintptr_t)had, label, one) {
        json_object_set(now, json_text(texts, label, label), one);
    }
    json_object_set_new(record, "datasets", now);
}

enum status former_record(const json_t *map, const json_t *record, json_t **out, struct err *e)
{
    const char *key = json_text(record, "key", NULL);
    const json_t *now = key ? json_object_get(map, key) : NULL, *texts;
    *out = json_incref((json_t *)(uintptr_t)record);
    if (!now) return OK;
    json_decref(*out);
    *out = json_copy((json_t *)(uintptr_t)record);
    json_object_set(*out, "key", json_object_get(now, "key"));
    texts = json_object_get(now, "texts");
    if (texts && measure_find(json_text(record, "type", "")) &&
        result_state_of(record) == STATE_DONE)
        name_texts(*out, texts);
    return json_whole(e);
}

enum status former_plan(json_t *list, const json_t *plan, struct err *e)
{
    json_t *one, *texts = json_object_get(json_object_get(plan, "config"), "evaluation");
    size_t i;
    if (!texts || json_object_get(json_array_get(json_object_get(plan, "models"), 0), "texts"))
        return OK;
    json_auto_t *own =
        json_pack("{s:O, s:O*}", "evaluation", texts, "inputs", json_object_get(plan, "inputs"));
    json_array_foreach(list, i, one)
        if (json_equal(one, own)) return OK;
    json_array_append(list, own);
    return json_whole(e);
}

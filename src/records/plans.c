#include "records/plans.h"
#include "records/measures.h"
#include "records/part_files.h"
#include "records/results.h"
#include "util/fsx.h"
#include <string.h>

const char *plans_known(const json_t *entry)
{
    return json_text(entry, "known", json_text(entry, "name", ""));
}

const json_t *plans_entry(const json_t *list, const char *known)
{
    size_t i;
    json_t *one;
    json_array_foreach(list, i, one)
        if (strcmp(plans_known(one), known) == 0) return one;
    return NULL;
}

const char *plans_recipe(const json_t *checkpoint)
{
    return json_text(checkpoint, "known_recipe", json_text(checkpoint, "recipe", ""));
}

/* --- what is kept of a plan --- */

static json_t *members_of(const json_t *from, const char *const *names)
{
    json_t *out = json_object();
    for (; *names; names++) {
        json_t *value = json_object_get(from, *names);
        if (value) json_object_set(out, *names, value);
    }
    return out;
}

/* config: the model's entry in the sweep file of then. */
static json_t *model_of(const json_t *model, const json_t *config)
{
    static const char *const own[] = {"name", "known", "positions", NULL},
                             *const place[] = {"path", "hub", NULL},
                             *const rows[] = {"name",   "known",        "kind",
                                              "recipe", "known_recipe", "key",
                                              "config", "tokenizer",    NULL};
    size_t i;
    json_t *row, *out = members_of(model, own), *more = members_of(config, place),
                 *list = json_array();
    json_array_foreach(json_object_get(model, "checkpoints"), i, row) {
        json_array_append_new(list, members_of(row, rows));
    }
    json_object_update(out, more);
    json_decref(more);
    json_object_set_new(out, "checkpoints", list);
    return out;
}

/* Of the measures whose records have parts, with the methods that they name; NULL: none was asked
 * for. */
static json_t *settings_of(const json_t *config)
{
    json_t *own = json_object();
    for (int k = 0; k < MEASURES_N; k++)
        for (int64_t i = 0; measures[k]->parts && i < measures[k]->section.n; i++) {
            const char *key = measures[k]->section.options[i].name;
            json_t *value = json_object_get(config, key);
            if (value) json_object_set(own, key, value);
        }
    if (json_object_size(own) > 0) {
        json_object_set(own, "methods", json_object_get(config, "methods"));
        return own;
    }
    json_decref(own);
    return NULL;
}

static json_t *plan_of(const json_t *plan)
{
    static const char *const own[] = {"utc", "inputs", "read", "meanings", "blocks", NULL};
    const json_t *sweep = json_object_get(plan, "config"),
                 *config = json_object_get(sweep, "models");
    size_t i;
    json_t *model, *out = members_of(plan, own), *models = json_array();
    json_array_foreach(json_object_get(plan, "models"), i, model) {
        json_array_append_new(models, model_of(model, json_array_get(config, i)));
    }
    json_object_set_new(out, "models", models);
    json_t *seed = json_object_get(plan, "known_seed");
    json_object_set(out, "seed", seed ? seed : json_object_get(sweep, "seed"));
    json_t *settings = settings_of(sweep);
    if (settings) json_object_set_new(out, "settings", settings);
    return out;
}

/* Whether it repeats the one before; of equal models it has those of that one. */
static bool repeats(json_t *one, const json_t *before)
{
    bool same = before != NULL;
    static const char *const names[] = {"inputs", "read", "meanings", "blocks",
                                        "models", "seed", "settings", NULL};
    for (int i = 0; before && names[i]; i++) {
        json_t *had = json_object_get(before, names[i]), *has = json_object_get(one, names[i]);
        if (had && has && json_equal(had, has))
            json_object_set(one, names[i], had);
        else
            same = same && !had && !has;
    }
    return same;
}

/* --- where they are --- */

static enum status add_journal(const char *path, json_t *list, struct err *e)
{
    static const char *const without[] = {"values",     "layers",    "tables", "datasets",
                                          "provenance", "completes", NULL};
    CLEANUP(journal_close_at) struct journal *j = NULL;
    json_auto_t *record = NULL, *one = NULL;
    if (!fsx_is_file(path)) return OK;
    PASS(journal_open_beside(path, &j, e));
    for (int64_t i = 0; i < journal_n(j); i++) {
        PASS(journal_read(j, i, without, &record, e));
        if (strcmp(json_text(record, "type", ""), "plan") == 0) one = plan_of(record);
        if (one && !repeats(one, json_array_get(list, json_array_size(list) - 1)))
            json_array_append(list, one);
        json_drop(&one);
        json_drop(&record);
    }
    return OK;
}

enum status plans_of(const char *results, json_t **out, struct err *e)
{
    struct err why = {0};
    CLEANUP(parts_free) struct part_places all = {0};
    json_auto_t *list = json_array();
    const enum status st = parts_of(results, &all, &why);
    NEED(st != ERR_NOMEM, ERR_NOMEM, "%s", why.text);
    for (int64_t i = 0; i < all.n; i++) { /* a bad journal is as none */
        struct err own = {0};
        NEED(add_journal(all.part[i].journal, list, &own) != ERR_NOMEM, ERR_NOMEM, "%s", own.text);
    }
    /* By their times; stable. */
    for (size_t i = 1; i < json_array_size(list); i++)
        for (size_t k = i; k > 0; k--) {
            json_t *a = json_array_get(list, k - 1), *b = json_array_get(list, k);
            if (strcmp(json_text(a, "utc", ""), json_text(b, "utc", "")) <= 0) break;
            json_incref(a);
            json_array_set(list, k - 1, b);
            json_array_set_new(list, k, a);
        }
    *out = json_incref(list);
    return json_whole(e);
}

/* What earlier plans of the results knew, for what is not there now. */
#include "plan/plan_internal.h"
#include "records/plans.h"
#include <string.h>

void plan_past_free(struct plan_past *p)
{
    json_decref(p->plans);
    json_decref(p->read);
    json_decref(p->starts);
    json_decref(p->grown);
    json_decref(p->meanings);
    json_decref(p->configs);
    json_decref(p->entries);
    *p = (struct plan_past){0};
}

enum status plan_past_open(const char *results, struct plan_past *out, struct err *e)
{
    *out = (struct plan_past){.read = json_object(),
                              .starts = json_object(),
                              .grown = json_object(),
                              .configs = json_object(),
                              .entries = json_array(),
                              .meanings = json_object()};
    const json_t *plan;
    size_t i;
    PASS(plans_of(results, &out->plans, e));
    json_array_foreach(out->plans, i, plan) {
        json_object_update(out->meanings, json_object_get(plan, "meanings"));
        json_array_append_new(out->entries, json_null());
    }
    return json_whole(e);
}

const char *plan_past_input(const struct plan *p, const char *path)
{
    const char *digest = "";
    for (size_t k = json_array_size(p->past.plans); k-- > 0 && !digest[0];) {
        const json_t *plan = json_array_get(p->past.plans, k);
        digest = json_text(json_object_get(plan, "inputs"), path, "");
    }
    return digest;
}

int64_t plan_past_positions(const struct plan *p, const char *model)
{
    int64_t positions = 0;
    for (size_t k = json_array_size(p->past.plans); k-- > 0 && positions <= 0;) {
        const json_t *plan = json_array_get(p->past.plans, k);
        size_t i;
        json_t *one;
        json_array_foreach(json_object_get(plan, "models"), i, one) {
            if (strcmp(json_text(one, "name", ""), model) == 0)
                positions = json_integer_value(json_object_get(one, "positions"));
        }
    }
    return positions;
}

void plan_past_seed(struct plan *p)
{
    const json_t *known = NULL;
    for (size_t k = json_array_size(p->past.plans); k-- > 0 && !known;)
        known = json_object_get(json_array_get(p->past.plans, k), "seed");
    p->known_seed = known ? (int64_t)json_integer_value(known) : p->sweep->seed;
    p->seed = p->known_seed == p->sweep->seed ? -1 : p->sweep->seed;
}

const json_t *plan_past_models(const struct plan *p, size_t *k, const json_t *last)
{
    while (*k > 0) {
        const json_t *models = json_object_get(json_array_get(p->past.plans, --*k), "models");
        if (models && models != last) return models;
    }
    return NULL;
}

const json_t *plan_past_entries(const struct plan *p, size_t k, const char *model)
{
    const json_t *models = json_object_get(json_array_get(p->past.plans, k), "models"), *one, *row;
    size_t i, n;
    if (!json_is_object(json_array_get(p->past.entries, k))) {
        json_t *all = json_object();
        json_array_foreach(models, i, one) {
            json_t *of = json_object();
            json_array_foreach(json_object_get(one, "checkpoints"), n, row)
                json_object_set(of, plans_known(row), (json_t *)(uintptr_t)row);
            json_object_set_new(all, plans_known(one), of);
        }
        json_array_set_new(p->past.entries, k, all);
    }
    return json_object_get(json_array_get(p->past.entries, k), model);
}

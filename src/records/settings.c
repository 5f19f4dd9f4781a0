/* The settings of the measures whose records have parts, by the plans of journals. */
#include "records/measures.h"
#include "records/view_internal.h"

/* What a plan says of them, with the methods that they name; a new reference. */
static json_t *settings_of(const json_t *config)
{
    json_t *own = json_object();
    for (int k = 0; k < MEASURES_N; k++)
        for (int64_t i = 0; measures[k]->parts && i < measures[k]->section.n; i++) {
            const char *key = measures[k]->section.options[i].name;
            json_t *value = json_object_get(config, key);
            if (value) json_object_set(own, key, value);
        }
    if (json_object_size(own) > 0)
        json_object_set(own, "methods", json_object_get(config, "methods"));
    return own;
}

enum status settings_learn(json_t *list, const json_t *plan, struct err *e)
{
    json_t *one, *own = settings_of(json_object_get(plan, "config"));
    size_t i;
    NEED(own, ERR_NOMEM, "out of memory for a plan");
    bool known = json_object_size(own) == 0;
    json_array_foreach(list, i, one) known = known || json_equal(one, own);
    const int failed = known ? 0 : json_array_append(list, own);
    json_decref(own);
    NEED(!failed, ERR_NOMEM, "out of memory for a plan");
    return OK;
}

#include "records/complete.h"
#include "records/measures.h"
#include "records/results.h"
#include <string.h>

static const char *weights_of(const json_t *record)
{
    return json_text(json_object_get(record, "provenance"), "weights_hash", "");
}

bool completion_fits(const json_t *record, const json_t *completion)
{
    /* Texts that could not be scored since the weights could not be opened. */
    const bool unread = !weights_of(completion)[0] && !json_object_get(completion, "message");
    return result_state_of(record) == STATE_DONE &&
           (unread || strcmp(weights_of(record), weights_of(completion)) == 0);
}

bool completion_adds(const json_t *record, const json_t *completion)
{
    const json_t *had = json_object_get(record, "provenance");
    const char *part;
    json_t *digest;
    json_object_foreach(json_object_get(completion, "completes"), part, digest) {
        const json_t *own = json_object_get(had, part);
        if (!own || (json_object_get(own, "message") && !json_object_get(digest, "message")))
            return true;
    }
    return false;
}

/* object[key] = what it is, in a copy, with what `more` has. */
static void complete_object(json_t *object, const char *key, const json_t *more)
{
    json_t *copy = json_copy(json_object_get(object, key));
    if (more) json_object_update(copy, (json_t *)(uintptr_t)more);
    json_object_set_new(object, key, copy);
}

/* Likewise the entries of a list, of which `more` has those of some labels. */
static void complete_list(json_t *record, const struct record_list *list, const json_t *more)
{
    json_t *entry, *all = json_array();
    size_t i;
    json_array_foreach(json_object_get(record, list->name), i, entry) {
        const json_t *own = json_object_get(more, json_text(entry, list->label, ""));
        json_t *copy = own ? json_copy(entry) : json_incref(entry);
        if (own) json_object_update(copy, (json_t *)(uintptr_t)own);
        json_array_append_new(all, copy);
    }
    json_object_set_new(record, list->name, all);
}

void completion_fingerprint(json_t *record, const json_t *completion)
{
    const char *own = json_text(record, "fingerprint", "");
    const char *more = json_text(completion, "fingerprint", "");
    if (!strstr(own, more))
        json_object_set_new(record, "fingerprint", json_sprintf("%s; completed by %s", own, more));
}

enum status completion_join(const json_t *old, const json_t *completion, json_t **out,
                            struct err *e)
{
    const struct measure *kind = measure_find(json_text(old, "type", ""));
    json_t *record = json_copy((json_t *)(uintptr_t)old);
    const json_t *list = kind->list ? json_object_get(completion, kind->list->name) : NULL;
    const json_t *read = json_object_get(json_object_get(completion, "provenance"), "weights_read");
    complete_object(record, "values", json_object_get(completion, "values"));
    if (json_object_get(record, "datasets"))
        complete_object(record, "datasets", json_object_get(completion, "datasets"));
    complete_object(record, "provenance", json_object_get(completion, "completes"));
    json_t *own = json_object_get(record, "provenance");
    if (read && json_object_get(own, "weights_read")) /* it may be made from further weights */
        complete_object(own, "weights_read", read);
    if (json_object_get(completion, "message"))
        json_object_set(record, "message", json_object_get(completion, "message"));
    completion_fingerprint(record, completion);
    if (list) complete_list(record, kind->list, list);
    *out = record;
    return json_whole(e);
}

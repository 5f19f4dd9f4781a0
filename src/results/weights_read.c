#include "results/weights_read.h"
#include <stdio.h>
#include <string.h>

const char *weights_read_time(const json_t *record)
{
    const json_t *p = json_object_get(record, "provenance");
    return json_text(record, "utc", json_text(p, "utc_end", json_text(p, "utc_start", "")));
}

static json_t *digests_of(const json_t *record)
{
    return json_object_get(json_object_get(record, "provenance"), "weights_read");
}

bool weights_read_learn(json_t *newest, const json_t *record, bool always)
{
    const char *name, *time = weights_read_time(record);
    json_t *digest;
    bool changed = false;
    json_object_foreach(digests_of(record), name, digest)
    {
        const json_t *known = json_object_get(newest, name);
        const char *was = json_text(known, "digest", ""), *is = json_string_value(digest);
        const bool differs = known && strcmp(was, is) != 0;
        int later = known ? strcmp(time, json_text(known, "utc", "")) : 1;
        if (later == 0) later = strcmp(is, was);
        if (known && !(always ? differs : later > 0)) continue;
        json_object_set_new(newest, name, json_pack("{s:O, s:s}", "digest", digest, "utc", time));
        changed = changed || differs;
    }
    return changed;
}

bool weights_read_agree(const json_t *newest, const json_t *record)
{
    const char *name;
    json_t *digest;
    json_object_foreach(digests_of(record), name, digest)
    {
        const json_t *known = json_object_get(newest, name);
        if (known && !json_equal(json_object_get(known, "digest"), digest)) return false;
    }
    return true;
}

void weights_read_share(const json_t *newest, json_t *record)
{
    json_t *own = digests_of(record);
    void *first = json_object_iter(own);
    json_t *known = first ? json_object_get(newest, json_object_iter_key(first)) : NULL;
    json_t *shared = json_object_get(known, "all");
    if (shared && json_equal(shared, own))
        json_object_set(json_object_get(record, "provenance"), "weights_read", shared);
    else if (known)
        json_object_set(known, "all", own);
    json_object_del(json_object_get(record, "provenance"), "utc_end");
}

#include "records/weights_read.h"
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

bool weights_read_learn(json_t *newest, const json_t *record)
{
    const char *name, *time = weights_read_time(record);
    json_t *digest;
    bool changed = false;
    json_object_foreach(digests_of(record), name, digest) {
        json_t *known = json_object_get(newest, name);
        const bool same = known && json_equal(json_object_get(known, "digest"), digest);
        if (!same)
            json_object_set_new(newest, name,
                                json_pack("{s:O, s:s}", "digest", digest, "utc", time));
        else if (strcmp(time, json_text(known, "utc", "")) > 0)
            json_object_set_new(known, "utc", json_string(time));
        changed = changed || (known && !same);
    }
    return changed;
}

bool weights_read_join(json_t *newest, const json_t *other)
{
    const char *name;
    json_t *more;
    bool changed = false;
    json_object_foreach((json_t *)(uintptr_t)other, name, more) {
        const json_t *known = json_object_get(newest, name);
        const int digests = strcmp(json_text(more, "digest", ""), json_text(known, "digest", ""));
        const int times = strcmp(json_text(more, "utc", ""), json_text(known, "utc", ""));
        if (known && (times ? times : digests) <= 0) continue;
        changed = changed || (known && digests);
        json_object_set(newest, name, more);
    }
    return changed;
}

bool weights_read_agree(const json_t *newest, const json_t *record)
{
    const char *name;
    json_t *digest;
    json_object_foreach(digests_of(record), name, digest) {
        const json_t *known = json_object_get(newest, name);
        if (known && !json_equal(json_object_get(known, "digest"), digest)) return false;
    }
    return true;
}

bool weights_read_any(const json_t *record)
{
    return json_object_size(digests_of(record)) > 0;
}

bool weights_read_same(const json_t *a, const json_t *b)
{
    const json_t *x = digests_of(a), *y = digests_of(b);
    return x == y || (x && y && json_equal(x, y));
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

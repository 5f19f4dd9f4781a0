#include "stage/claims.h"
#include "util/num.h"
#include <string.h>

json_t *claims_entry(const json_t *state, const char *path)
{
    return json_object_get(json_object_get(state, "checkpoints"), path);
}

bool claims_is(const json_t *entry, const char *word)
{
    return strcmp(json_text(entry, "state", ""), word) == 0;
}

bool claims_there(const json_t *entry)
{
    return claims_is(entry, "there") || claims_is(entry, "own");
}

bool claims_left(const json_t *entry)
{
    return claims_is(entry, "fetching") && !json_object_get(entry, "by");
}

static bool may_go(const json_t *entry)
{
    return claims_is(entry, "there") || claims_left(entry);
}

/* --- space --- */

/* Bytes of what is on disk or being fetched, outside of the set (NULL: of all). */
static int64_t bytes_beside(const json_t *state, const json_t *set)
{
    const char *path;
    json_t *entry;
    int64_t bytes = 0;
    json_object_foreach(json_object_get(state, "checkpoints"), path, entry)
    {
        if (!json_object_get(set, path)) bytes += claims_number(entry, "bytes");
    }
    return bytes;
}

/* What a checkpoint takes on disk once it is fetched, as far as is known. */
static int64_t size_of(const json_t *state, const char *path, const json_t *expected)
{
    const json_t *entry = claims_entry(state, path);
    const int64_t bytes = claims_number(entry, "bytes");
    return claims_there(entry) ? bytes : max64(bytes, json_integer_value(expected));
}

static int64_t size_of_all(const json_t *state, json_t *set)
{
    const char *path;
    json_t *expected;
    int64_t bytes = 0;
    json_object_foreach(set, path, expected) bytes += size_of(state, path, expected);
    return bytes;
}

/* --- users --- */

/* NULL: it is gone. */
static json_t *life_of(const json_t *state, const char *user)
{
    return json_object_get(json_object_get(json_object_get(state, "users"), user), "life");
}

void claims_bury(json_t *state)
{
    const char *key;
    json_t *one;
    void *next;
    json_object_foreach_safe(json_object_get(state, "visits"), next, key, one)
    {
        if (!life_of(state, json_text(one, "user", "")))
            json_object_del(json_object_get(state, "visits"), key);
    }
}

bool claims_orphaned(const json_t *state, const json_t *entry)
{
    const json_t *by = json_object_get(entry, "by");
    const char *name;
    json_t *user;
    bool orphaned = by;
    json_object_foreach(json_object_get(state, "users"), name, user) orphaned =
        orphaned && !json_equal(by, json_object_get(user, "life"));
    return orphaned;
}

void claims_register(json_t *state, const char *user, const char *life, json_t *needs)
{
    const char *path;
    json_t *expected, *places = json_object();
    json_object_foreach(needs, path, expected)
        json_object_set_new(places, path, json_integer((json_int_t)json_object_size(places)));
    json_object_set_new(json_object_get(state, "users"), user,
                        json_pack("{s:s, s:o}", "life", life, "needs", places));
}

/* After how many others a user needs it, one that is gone after all that live; INT64_MAX: none
 * does. */
static int64_t next_use(const json_t *state, const char *path)
{
    int64_t least = INT64_MAX;
    const char *name;
    json_t *user;
    json_object_foreach(json_object_get(state, "users"), name, user)
    {
        const json_t *needs = json_object_get(user, "needs");
        const int64_t far = life_of(state, name) ? 0 : INT32_MAX;
        if (json_object_get(needs, path)) least = min64(least, far + claims_number(needs, path));
    }
    return least;
}

bool claims_needed(const json_t *state, const char *path)
{
    return next_use(state, path) < INT64_MAX;
}

/* --- visits --- */

/* What leased visits read, and the first that waits (*first, borrowed; NULL: none): for that there
 * must be space. The caller decrefs. */
static json_t *find_asked(const json_t *state, json_t **first)
{
    json_t *set = json_object(), *one;
    const char *visit;
    *first = NULL;
    json_object_foreach(json_object_get(state, "visits"), visit, one)
    {
        if (!claims_flag(one, "leased") && *first) continue;
        if (!claims_flag(one, "leased")) *first = one;
        json_object_update(set, json_object_get(one, "reads"));
    }
    return set;
}

enum claim claims_ask(json_t *state, const json_t *visit, bool there, int64_t space)
{
    json_t *visits = json_object_get(state, "visits"), *reads = json_object_get(visit, "reads");
    const char *user = json_text(visit, "user", ""), *name = json_text(visit, "visit", ""), *path;
    json_t *one = json_object_get(visits, name), *first, *set, *expected;
    if (!json_equal(life_of(state, user), json_object_get(visit, "life"))) return CLAIM_WAITS;
    if (claims_flag(one, "leased")) return CLAIM_LEASED;
    if (size_of_all(state, reads) > space) return CLAIM_NEVER;
    if (!one)
        json_object_set_new(visits, name, json_pack("{s:s, s:O}", "user", user, "reads", reads));
    one = json_object_get(visits, name);
    set = find_asked(state, &first);
    json_object_update(set, reads);
    /* The first that waits keeps its space. */
    bool may = there && (one == first || size_of_all(state, set) <= space);
    json_object_foreach(reads, path, expected) may = may && claims_there(claims_entry(state, path));
    json_decref(set);
    if (may) json_object_set_new(one, "leased", json_true());
    return may ? CLAIM_LEASED : CLAIM_WAITS;
}

void claims_end(json_t *state, const char *visit)
{
    json_object_del(json_object_get(state, "visits"), visit);
}

/* --- removing --- */

void claims_tidy(json_t *state)
{
    const char *path, *visit;
    json_t *entry, *one;
    json_object_foreach(json_object_get(state, "checkpoints"), path, entry)
    {
        bool needed = claims_needed(state, path);
        if (needed) json_object_set_new(entry, "used", json_true());
        json_object_foreach(json_object_get(state, "visits"), visit, one) needed =
            needed || json_object_get(json_object_get(one, "reads"), path);
        if (!needed && claims_flag(entry, "used") && may_go(entry))
            json_object_set_new(entry, "state", json_string("removing"));
    }
}

/* Removes what is not in the set, farthest next use first, until so many bytes are too many no
 * longer. */
static void evict(json_t *state, const json_t *set, int64_t excess)
{
    while (excess > 0) {
        const char *path;
        json_t *last = NULL, *entry;
        int64_t farthest = -1;
        json_object_foreach(json_object_get(state, "checkpoints"), path, entry)
        {
            if (json_object_get(set, path) || !may_go(entry)) continue;
            const int64_t use = next_use(state, path);
            if (use > farthest) last = entry;
            farthest = max64(farthest, use);
        }
        if (!last) return;
        excess -= claims_number(last, "bytes");
        json_object_set_new(last, "state", json_string("removing"));
    }
}

/* --- fetching --- */

/* The first of the set that is to be fetched, as a key of items. */
static const char *find_away(const json_t *state, json_t *items, json_t *set, double now)
{
    const char *path;
    json_t *expected;
    json_object_foreach(set, path, expected)
    {
        const json_t *item = json_object_get(items, path), *entry = claims_entry(state, path);
        if (item && !(json_number_get(json_object_get(item, "not_before")) > now) &&
            (!entry || claims_left(entry)))
            return json_object_iter_key(json_object_iter_at(items, path));
    }
    return NULL;
}

const char *claims_fetch(json_t *state, const char *user, json_t *items, json_t *wanted,
                         int64_t space, double now, bool *full)
{
    json_t *first, *set = find_asked(state, &first), *entry;
    const char *asked = find_away(state, items, set, now),
               *path = asked ? asked : find_away(state, items, wanted, now);
    /* Who asked before the first of a model was there expected nothing of its size. */
    const json_t *models = json_object_get(state, "models"),
                 *item = path ? json_object_get(items, path) : NULL;
    const int64_t bytes =
                      path
                          ? max64(size_of(state, path, json_object_get(asked ? set : wanted, path)),
                                  claims_number(models, json_text(item, "model", "")))
                          : 0,
                  more = bytes - claims_number(claims_entry(state, path), "bytes");
    /* What is fetched ahead leaves space to what is asked for. */
    const int64_t sum =
        asked ? bytes_beside(state, NULL) : bytes_beside(state, set) + size_of_all(state, set);
    if (asked) evict(state, set, sum + more - space);
    json_decref(set);
    *full = path && sum + more > space;
    if (!path || *full) return NULL;
    claims_set_state(state, path, "", "fetching", bytes, NULL);
    entry = claims_entry(state, path);
    json_object_set(entry, "by", life_of(state, user));
    return path;
}

bool claims_measure(json_t *state, const char *path, int64_t bytes, int64_t space)
{
    json_t *entry = claims_entry(state, path);
    if (bytes <= claims_number(entry, "bytes")) return true;
    json_object_set_new(entry, "bytes", json_integer(bytes));
    if (bytes_beside(state, NULL) <= space) return true;
    json_object_set_new(entry, "by", json_string(""));
    return false;
}

void claims_set_state(json_t *state, const char *path, const char *model, const char *word,
                      int64_t bytes, const char *message)
{
    json_t *models = json_object_get(state, "models"), *entry;
    if (!claims_entry(state, path))
        json_object_set_new(json_object_get(state, "checkpoints"), path, json_object());
    entry = claims_entry(state, path);
    json_object_set_new(entry, "state", json_string(word));
    const bool counts = claims_is(entry, "there") || claims_is(entry, "fetching");
    json_object_set_new(entry, "bytes", json_integer(counts ? bytes : 0));
    json_object_del(entry, "by");
    if (claims_is(entry, "failed")) json_object_set_new(entry, "message", json_string(message));
    if (claims_there(entry) && model[0] && bytes > claims_number(models, model))
        json_object_set_new(models, model, json_integer(bytes));
}

#include "stage/claims.h"
#include "util/num.h"
#include <stdio.h>
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

json_t *claims_set(json_t *state, const char *path, const char *word, int64_t bytes)
{
    json_t *all = json_object_get(state, "checkpoints");
    if (!claims_entry(state, path)) json_object_set_new(all, path, json_object());
    json_t *entry = claims_entry(state, path);
    json_object_set_new(entry, "state", json_string(word));
    json_object_set_new(entry, "bytes", json_integer(bytes));
    return entry;
}

/* --- space --- */

/* Bytes of what is on disk or being fetched, outside of the set (NULL: of all). */
static int64_t bytes_beside(const json_t *state, const json_t *set)
{
    const char *path;
    json_t *entry;
    int64_t bytes = 0;
    json_object_foreach(json_object_get(state, "checkpoints"), path, entry) {
        if (!json_object_get(set, path)) bytes += json_int(entry, "bytes");
    }
    return bytes;
}

static int64_t size_of(const json_t *state, const char *path, const char *model)
{
    const json_t *entry = claims_entry(state, path);
    const int64_t bytes = json_int(entry, "bytes"),
                  largest = json_int(json_object_get(state, "models"), model);
    return claims_there(entry) ? bytes : max64(1, max64(bytes, largest));
}

int64_t claims_bytes(const json_t *state, json_t *set)
{
    const char *path;
    json_t *model;
    int64_t bytes = 0;
    json_object_foreach(set, path, model) bytes += size_of(state, path, json_string_value(model));
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
    json_t *visits = json_object_get(state, "visits"), *one;
    const char *key;
    void *next;
    json_object_foreach_safe(visits, next, key, one) {
        if (!life_of(state, json_text(one, "user", ""))) json_object_del(visits, key);
    }
    json_object_foreach(json_object_get(state, "checkpoints"), key, one) {
        if (claims_is(one, "fetching") && !life_of(state, json_text(one, "by", "")))
            json_object_set_new(one, "state", json_string("ending"));
    }
}

void claims_register(json_t *state, const char *user, const char *life, json_t *needs)
{
    const char *path;
    json_t *model, *places = json_object();
    json_object_foreach(needs, path, model)
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
    json_object_foreach(json_object_get(state, "users"), name, user) {
        const json_t *needs = json_object_get(user, "needs");
        const int64_t far = json_object_get(user, "life") ? 0 : INT32_MAX;
        if (json_object_get(needs, path)) least = min64(least, far + json_int(needs, path));
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
    json_object_foreach(json_object_get(state, "visits"), visit, one) {
        if (!json_flag(one, "leased") && *first) continue;
        if (!json_flag(one, "leased")) *first = one;
        json_object_update(set, json_object_get(one, "reads"));
    }
    return set;
}

enum claim claims_ask(json_t *state, const json_t *visit, bool there, char why[512])
{
    json_t *visits = json_object_get(state, "visits"), *reads = json_object_get(visit, "reads");
    const char *user = json_text(visit, "user", ""), *name = json_text(visit, "visit", ""), *path;
    const int64_t space = json_int(visit, "space");
    json_t *one = json_object_get(visits, name), *first, *set, *model;
    why[0] = '\0';
    if (!json_equal(life_of(state, user), json_object_get(visit, "life"))) return CLAIM_WAITS;
    if (json_flag(one, "leased")) return CLAIM_LEASED;
    json_object_foreach(reads, path, model) {
        const json_t *entry = claims_entry(state, path);
        if (claims_is(entry, "failed")) snprintf(why, 512, "%s", json_text(entry, "message", ""));
        there = there && claims_there(entry);
    }
    if (!why[0] && claims_bytes(state, reads) > space)
        snprintf(why, 512, "what its visit reads takes more than run.stage_space");
    if (why[0]) return CLAIM_NEVER;
    if (!one)
        json_object_set_new(visits, name, json_pack("{s:s, s:O}", "user", user, "reads", reads));
    one = json_object_get(visits, name);
    set = find_asked(state, &first);
    json_object_update(set, reads);
    /* The first that waits keeps its space. */
    const bool may = there && (one == first || claims_bytes(state, set) <= space);
    json_decref(set);
    if (may) json_object_set_new(one, "leased", json_true());
    return may ? CLAIM_LEASED : CLAIM_WAITS;
}

/* --- removing --- */

static bool may_go(const json_t *entry)
{
    return claims_is(entry, "there") || claims_is(entry, "left");
}

void claims_tidy(json_t *state)
{
    const char *path;
    json_t *entry;
    json_object_foreach(json_object_get(state, "checkpoints"), path, entry) {
        const bool needed = claims_needed(state, path);
        if (needed) json_object_set_new(entry, "used", json_true());
        if (!needed && json_flag(entry, "used") && may_go(entry))
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
        json_object_foreach(json_object_get(state, "checkpoints"), path, entry) {
            if (json_object_get(set, path) || !may_go(entry)) continue;
            const int64_t use = next_use(state, path);
            if (use > farthest) last = entry;
            farthest = max64(farthest, use);
        }
        if (!last) return;
        excess -= json_int(last, "bytes");
        json_object_set_new(last, "state", json_string("removing"));
    }
}

/* --- fetching --- */

/* The first of the set that is to be fetched, as a key of items. */
static const char *find_away(const json_t *state, json_t *items, json_t *set, double now)
{
    const char *path;
    json_t *model;
    json_object_foreach(set, path, model) {
        const json_t *item = json_object_get(items, path), *entry = claims_entry(state, path);
        if (item && !(json_number_get(json_object_get(item, "not_before")) > now) &&
            (!entry || claims_is(entry, "left")))
            return json_object_iter_key(json_object_iter_at(items, path));
    }
    return NULL;
}

const char *claims_fetch(json_t *state, const char *user, json_t *items, json_t *wanted,
                         int64_t space, double now, bool *full)
{
    json_t *first, *set = find_asked(state, &first);
    const char *asked = find_away(state, items, set, now),
               *path = asked ? asked : find_away(state, items, wanted, now);
    const int64_t bytes =
                      size_of(state, path, json_text(json_object_get(items, path), "model", "")),
                  more = bytes - json_int(claims_entry(state, path), "bytes"),
                  /* What is fetched ahead leaves space to what is asked for. */
        sum =
            asked ? bytes_beside(state, NULL) : bytes_beside(state, set) + claims_bytes(state, set);
    if (asked) evict(state, set, sum + more - space);
    json_decref(set);
    *full = path && sum + more > space;
    if (!path || *full) return NULL;
    json_object_set_new(claims_set(state, path, "fetching", bytes), "by", json_string(user));
    return path;
}

bool claims_measure(json_t *state, const char *path, int64_t bytes, int64_t space)
{
    json_t *entry = claims_entry(state, path);
    if (bytes <= json_int(entry, "bytes")) return true;
    json_object_set_new(entry, "bytes", json_integer(bytes));
    if (bytes_beside(state, NULL) <= space) return true;
    json_object_set_new(entry, "state", json_string("ending"));
    return false;
}

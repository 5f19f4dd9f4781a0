#include "stage/claims.h"
#include "util/num.h"
#include <string.h>

/* --- the state --- */

json_t *claims_entry(const json_t *state, const char *path)
{
    return json_object_get(json_object_get(state, "checkpoints"), path);
}

bool claims_is(const json_t *entry, const char *word)
{
    return strcmp(json_text(entry, "state", ""), word) == 0;
}

static bool flag(const json_t *object, const char *key)
{
    return json_is_true(json_object_get(object, key));
}

static void set_state(json_t *entry, const char *word)
{
    json_object_set_new(entry, "state", json_string(word));
    json_object_del(entry, "by");
}

int64_t claims_model_bytes(const json_t *state, const char *model)
{
    const json_t *models = json_object_get(state, "models");
    return json_object_get(models, model) ? claims_number(models, model) : -1;
}

static void note_bytes(json_t *state, const char *model, int64_t bytes)
{
    if (bytes > claims_model_bytes(state, model))
        json_object_set_new(json_object_get(state, "models"), model, json_integer(bytes));
}

bool claims_there(const json_t *entry)
{
    return claims_is(entry, "there") || claims_is(entry, "own");
}

/* Somebody is to fetch it. */
static bool is_away(const json_t *entry)
{
    return !entry || (claims_is(entry, "fetching") && !json_object_get(entry, "by"));
}

/* Bytes of what is on disk or being fetched, outside of the set (NULL: of all), in that state
 * (NULL: in any). */
static int64_t sum(const json_t *state, const json_t *set, const char *word)
{
    const char *path;
    json_t *entry;
    int64_t bytes = 0;
    json_object_foreach(json_object_get(state, "checkpoints"), path, entry)
    {
        if (!json_object_get(set, path) && (!word || claims_is(entry, word)))
            bytes += claims_number(entry, "bytes");
    }
    return bytes;
}

/* What it takes on disk once it is fetched, as far as is known. */
static int64_t size_of(const json_t *state, const char *path, const char *model, int64_t space)
{
    const json_t *entry = claims_entry(state, path);
    const int64_t bytes = claims_number(entry, "bytes"), known = claims_model_bytes(state, model);
    if (claims_there(entry) || claims_is(entry, "failed")) return bytes;
    return max64(claims_is(entry, "fetching") ? bytes : 0, known < 0 ? space : known);
}

/* Of {PATH: MODEL}; missing: only what is still to be added on disk. */
static int64_t size_of_all(const json_t *state, json_t *set, int64_t space, bool missing)
{
    const char *path;
    json_t *model;
    int64_t bytes = 0;
    json_object_foreach(set, path, model)
    {
        const json_t *entry = claims_entry(state, path);
        const bool counted = missing && !claims_is(entry, "removing");
        bytes += size_of(state, path, json_string_value(model), space) -
                 (counted ? claims_number(entry, "bytes") : 0);
    }
    return bytes;
}

/* --- users --- */

void claims_bury(json_t *state, const json_t *active)
{
    json_t *users = json_object_get(state, "users"), *visits = json_object_get(state, "visits"),
           *one;
    const char *name;
    void *next;
    json_object_foreach_safe(users, next, name, one)
    {
        if (json_is_true(json_object_get(active, name))) continue;
        json_object_del(one, "life");
        if (json_array_size(json_object_get(one, "needs")) == 0) json_object_del(users, name);
    }
    json_object_foreach(json_object_get(state, "checkpoints"), name, one)
    {
        if (!json_is_true(json_object_get(active, json_text(one, "by", ""))))
            json_object_del(one, "by");
    }
    for (size_t i = json_array_size(visits); i-- > 0;)
        if (!json_is_true(
                json_object_get(active, json_text(json_array_get(visits, i), "user", ""))))
            json_array_remove(visits, i);
}

void claims_register(json_t *state, const char *user, const char *life, json_t *needs)
{
    json_t *one;
    size_t i;
    json_object_set_new(json_object_get(state, "users"), user,
                        json_pack("{s:s, s:O}", "life", life, "needs", needs));
    json_array_foreach(needs, i, one)
    {
        json_t *entry = claims_entry(state, json_string_value(one));
        if (entry) json_object_set_new(entry, "used", json_true());
    }
}

/* After how many others a living user needs it; INT64_MAX: none does. any: also one that is gone.
 */
static int64_t distance(const json_t *state, const char *path, bool any)
{
    int64_t least = INT64_MAX;
    const char *name;
    json_t *user, *one;
    size_t i;
    json_object_foreach(json_object_get(state, "users"), name, user)
    {
        if (!any && !json_object_get(user, "life")) continue;
        json_array_foreach(json_object_get(user, "needs"), i, one)
        {
            if ((int64_t)i >= least) break;
            if (strcmp(json_string_value(one), path) == 0) least = (int64_t)i;
        }
    }
    return least;
}

bool claims_needed(const json_t *state, const char *path)
{
    return distance(state, path, true) < INT64_MAX;
}

/* --- visits --- */

/* What leased visits read, and the first that waits (*first, borrowed; NULL: none), as {PATH:
 * MODEL}: for that there must be space. The caller decrefs. */
static json_t *find_asked(const json_t *state, json_t **first)
{
    json_t *set = json_object(), *one;
    size_t i;
    *first = NULL;
    json_array_foreach(json_object_get(state, "visits"), i, one)
    {
        if (!flag(one, "leased") && *first) continue;
        if (!flag(one, "leased")) *first = one;
        json_object_update(set, json_object_get(one, "reads"));
    }
    return set;
}

/* All of it is there, and the first that waits has space beside it. */
static bool may_lease(const json_t *state, const json_t *visit, int64_t space)
{
    const char *path;
    json_t *reads = json_object_get(visit, "reads"), *first, *set = find_asked(state, &first),
           *model;
    json_object_update(set, reads);
    bool may = visit == first || space == 0 || size_of_all(state, set, space, false) <= space;
    json_object_foreach(reads, path, model) may = may && claims_there(claims_entry(state, path));
    json_decref(set);
    return may;
}

static size_t find_visit(const json_t *state, const char *user, int64_t visit)
{
    json_t *one;
    size_t i;
    json_array_foreach(json_object_get(state, "visits"), i, one)
    {
        if (claims_number(one, "visit") == visit && !strcmp(json_text(one, "user", ""), user))
            break;
    }
    return i;
}

bool claims_ask(json_t *state, const json_t *visit, int64_t space)
{
    json_t *visits = json_object_get(state, "visits"), *one;
    const char *user = json_text(visit, "user", "");
    const json_t *known = json_object_get(json_object_get(state, "users"), user);
    const size_t i = find_visit(state, user, claims_number(visit, "visit"));
    if (!json_equal(json_object_get(known, "life"), json_object_get(visit, "life"))) return false;
    if (i == json_array_size(visits))
        json_array_append_new(visits, json_pack("{s:s, s:O, s:O}", "user", user, "visit",
                                                json_object_get(visit, "visit"), "reads",
                                                json_object_get(visit, "reads")));
    one = json_array_get(visits, i);
    if (!flag(one, "leased") && may_lease(state, one, space))
        json_object_set_new(one, "leased", json_true());
    return flag(one, "leased");
}

void claims_end(json_t *state, const char *user, int64_t visit)
{
    json_array_remove(json_object_get(state, "visits"), find_visit(state, user, visit));
}

/* --- removing --- */

void claims_tidy(json_t *state)
{
    const char *path;
    json_t *visits = json_object_get(state, "visits"), *entry, *one;
    size_t i;
    json_object_foreach(json_object_get(state, "checkpoints"), path, entry)
    {
        bool stays =
            flag(entry, "keep") || !flag(entry, "used") || claims_needed(state, path) ||
            !(claims_is(entry, "there") || (claims_is(entry, "fetching") && is_away(entry)));
        json_array_foreach(visits, i, one) stays =
            stays || json_object_get(json_object_get(one, "reads"), path);
        if (!stays) set_state(entry, "removing");
    }
}

/* Removes what is not in the set, farthest next use first, until so many bytes fit. */
static void evict(json_t *state, const json_t *set, int64_t space, int64_t bytes)
{
    const int64_t leaving = sum(state, NULL, "removing");
    for (int64_t excess = sum(state, NULL, NULL) - leaving + bytes - space; excess > 0;) {
        const char *path;
        json_t *last = NULL, *entry;
        int64_t farthest = -1;
        json_object_foreach(json_object_get(state, "checkpoints"), path, entry)
        {
            if (json_object_get(set, path) || flag(entry, "keep")) continue;
            if (!claims_is(entry, "there") && !(claims_is(entry, "fetching") && is_away(entry)))
                continue;
            const int64_t d = distance(state, path, false);
            if (d > farthest) last = entry;
            farthest = max64(farthest, d);
        }
        if (!last) return;
        excess -= claims_number(last, "bytes");
        set_state(last, "removing");
    }
}

/* --- fetching --- */

/* Whether nothing is on disk but what the first visit that waits reads: there will be no more space
 * for it. */
static bool is_alone(const json_t *state, const json_t *first, const json_t *set)
{
    return json_object_size(set) == json_object_size(json_object_get(first, "reads")) &&
           sum(state, set, NULL) == 0 && sum(state, NULL, "removing") == 0;
}

/* The first item to be fetched: of the set; NULL: that visits of the user will read. */
static json_t *find_away(const json_t *state, const json_t *items, const json_t *set)
{
    json_t *item;
    size_t i;
    json_array_foreach(items, i, item)
    {
        const char *path = json_text(item, "path", "");
        if (flag(item, "later") || !is_away(claims_entry(state, path))) continue;
        if (set ? json_object_get(set, path) != NULL : flag(item, "needed")) return item;
    }
    return NULL;
}

json_t *claims_fetch(json_t *state, const char *user, const json_t *items, int64_t space,
                     bool *full)
{
    json_t *first, *set = find_asked(state, &first), *item = find_away(state, items, set);
    const bool asked = item;
    if (!asked) item = find_away(state, items, NULL);
    const char *path = json_text(item, "path", ""), *model = json_text(item, "model", "");
    const json_t *entry = claims_entry(state, path);
    int64_t bytes = size_of(state, path, model, space);
    const int64_t has = claims_number(entry, "bytes");
    if (item && asked && space > 0) evict(state, set, space, bytes - has);
    /* What is fetched ahead leaves space to what is asked for. */
    const int64_t rest =
        space - sum(state, NULL, NULL) + has - (asked ? 0 : size_of_all(state, set, space, true));
    if (asked && space > 0 && is_alone(state, first, set)) bytes = min64(bytes, rest);
    *full = item && space > 0 && (bytes > rest || bytes <= 0);
    json_decref(set);
    if (!item || *full) return NULL;
    json_object_set_new(json_object_get(state, "checkpoints"), path,
                        json_pack("{s:s, s:s, s:I, s:s, s:O, s:b}", "state", "fetching", "by", user,
                                  "bytes", (json_int_t)bytes, "model", model, "keep",
                                  json_object_get(item, "keep"), "used",
                                  claims_needed(state, path)));
    return item;
}

enum claim claims_measure(json_t *state, const char *user, const json_t *item, int64_t bytes,
                          int64_t space)
{
    json_t *entry = claims_entry(state, json_text(item, "path", "")), *first;
    if (!claims_is(entry, "fetching") || strcmp(json_text(entry, "by", ""), user) != 0)
        return CLAIM_LOST;
    if (bytes <= claims_number(entry, "bytes")) return CLAIM_FITS;
    json_object_set_new(entry, "bytes", json_integer(bytes));
    note_bytes(state, json_text(item, "model", ""), bytes);
    if (space == 0 || sum(state, NULL, NULL) <= space) return CLAIM_FITS;
    json_t *set = find_asked(state, &first), *model;
    const char *path;
    size_t there = 1;
    json_object_foreach(set, path, model) there += claims_there(claims_entry(state, path));
    const bool never = json_object_get(set, json_text(item, "path", "")) &&
                       is_alone(state, first, set) && there == json_object_size(set);
    json_decref(set);
    json_object_del(entry, "by");
    return never ? CLAIM_NEVER : CLAIM_LOST;
}

void claims_settle(json_t *state, const json_t *item, const char *word, int64_t bytes,
                   const char *message)
{
    const char *path = json_text(item, "path", ""), *model = json_text(item, "model", "");
    if (!claims_entry(state, path))
        json_object_set_new(json_object_get(state, "checkpoints"), path,
                            json_pack("{s:s}", "model", model));
    json_t *entry = claims_entry(state, path);
    set_state(entry, word);
    json_object_set_new(entry, "bytes", json_integer(claims_is(entry, "own") ? 0 : bytes));
    if (message) json_object_set_new(entry, "message", json_string(message));
    if (claims_there(entry)) note_bytes(state, model, bytes);
}

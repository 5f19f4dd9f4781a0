/* Who has the space: a visit begins when the space for all that it reads is granted to it at once,
 * and keeps it until it has ended. docs/decisions/0026-staging.md says why everybody gets on. */
#include "stage/stager_internal.h"
#include "util/fsx.h"
#include "util/mem.h"
#include "util/num.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- sizes --- */

int64_t grants_used(const json_t *state)
{
    const char *path;
    json_t *entry;
    int64_t sum = 0;
    json_object_foreach(json_object_get(state, "checkpoints"), path,
                        entry) if (!stager_entry_is(entry, "failed")) sum +=
        (int64_t)json_integer_value(json_object_get(entry, "bytes"));
    return sum;
}

int64_t grants_leaving(const json_t *state)
{
    const char *path;
    json_t *entry;
    int64_t sum = 0;
    json_object_foreach(json_object_get(state, "checkpoints"), path,
                        entry) if (stager_entry_is(entry, "removing")) sum +=
        (int64_t)json_integer_value(json_object_get(entry, "bytes"));
    return sum;
}

int64_t grants_expected(const struct stager *s, const json_t *state, const char *model)
{
    const int64_t known = ledger_model_bytes(state, model);
    return known >= 0 ? known : s->space;
}

/* What a checkpoint takes once it is there; a folder that is not of staging takes nothing. */
static int64_t size_of(const struct stager *s, const json_t *state, const char *path,
                       const char *model)
{
    const json_t *entry = stager_entry(state, path);
    const int64_t bytes = (int64_t)json_integer_value(json_object_get(entry, "bytes"));
    const int64_t expected = grants_expected(s, state, model);
    if (!entry) return fsx_is_dir(path) ? 0 : expected;
    if (stager_entry_is(entry, "failed")) return 0;
    if (stager_entry_is(entry, "there")) return bytes;
    return bytes > expected && stager_entry_is(entry, "claimed") ? bytes : expected;
}

static int64_t size_of_set(const struct stager *s, const json_t *state, const json_t *set)
{
    const char *path;
    json_t *model;
    int64_t sum = 0;
    json_object_foreach((json_t *)(uintptr_t)set, path, model) sum +=
        size_of(s, state, path, json_string_value(model));
    return sum;
}

int64_t grants_missing(const struct stager *s, const json_t *state, const struct need *v,
                       int64_t *n)
{
    int64_t sum = 0;
    *n = 0;
    for (int64_t k = 0; k < v->n; k++) {
        const struct item *item = &s->items[v->items[k]];
        const json_t *entry = stager_entry(state, item->path);
        if (stager_place(s, state, item) != PLACE_AWAY) continue;
        ++*n;
        /* of one that an earlier process claimed, bytes are counted already */
        const int64_t has = (int64_t)json_integer_value(json_object_get(entry, "bytes"));
        sum += max64(grants_expected(s, state, item->model) - has, 0);
    }
    return sum;
}

/* --- sets --- */

static json_t *set_of(const struct stager *s, const struct need *v)
{
    json_t *set = json_object();
    for (int64_t k = 0; v && k < v->n; k++) {
        const struct item *item = &s->items[v->items[k]];
        json_object_set_new(set, item->path, json_string(item->model));
    }
    return set;
}

static bool is_open(const struct stager *s, const struct need *v)
{
    return v->n > 0 && !v->ended && !stager_failed(s, v);
}

void grants_look(struct stager *s)
{
    bool before = true;
    for (int64_t i = 0; i < s->n_visits; i++) {
        struct need *v = &s->visits[i];
        v->granted = v->granted && is_open(s, v);
        v->ready = v->granted && (v->ready || (before && stager_satisfied(s, v)));
        if (is_open(s, v)) before = v->ready;
    }
}

json_t *grants_first(const struct stager *s)
{
    for (int64_t i = 0; i < s->n_visits; i++)
        if (is_open(s, &s->visits[i])) return set_of(s, &s->visits[i]);
    return json_object();
}

json_t *grants_held(const struct stager *s)
{
    json_t *held = json_object();
    for (int64_t i = 0; i < s->n_visits; i++) {
        char number[24];
        if (!s->visits[i].granted) continue;
        snprintf(number, sizeof number, "%" PRId64, i);
        json_object_set_new(held, number, set_of(s, &s->visits[i]));
    }
    return held;
}

json_t *grants_ready(const struct stager *s)
{
    json_t *numbers = json_array();
    for (int64_t i = 0; i < s->n_visits; i++)
        if (s->visits[i].ready) json_array_append_new(numbers, json_integer((json_int_t)i));
    return numbers;
}

/* Whether the set fits beside others. Alone it always does: sizes that are expected may be wrong,
 * and whether it really does shows when it is fetched. */
static enum status fits(const struct stager *s, const json_t *state, const json_t *beside,
                        const json_t *set, bool *out, struct err *e)
{
    json_t *all = json_copy((json_t *)(uintptr_t)set);
    NEED(all && json_object_update(all, (json_t *)(uintptr_t)beside) == 0, ERR_NOMEM,
         "out of memory for what visits read");
    *out = s->space == 0 || json_object_size(all) == json_object_size(set) ||
           size_of_set(s, state, all) <= s->space;
    json_decref(all);
    return OK;
}

/* --- shares --- */

void shares_free(struct shares *h)
{
    json_decref(h->pinned);
    json_decref(h->before);
    json_decref(h->next);
    *h = (struct shares){0};
}

static int by_name(const void *a, const void *b)
{
    const char *const *x = a, *const *y = b;
    return strcmp(*x, *y);
}

/* The first visit of a user, if it fits beside those of users with earlier names. */
static enum status add_first(struct stager *s, const json_t *state, const char *name,
                             struct shares *h, struct err *e)
{
    json_t *user = json_object_get(json_object_get(state, "users"), name);
    json_t *first = json_object_get(user, "first"), *visit;
    const char *number;
    bool fit;
    json_object_foreach(json_object_get(user, "granted"), number, visit)
    {
        if (strcmp(name, s->ledger.user) < 0) h->first = false;
        NEED(json_object_update(h->pinned, visit) == 0, ERR_NOMEM, "out of memory for shares");
        if (json_object_size(visit) > h->largest) h->largest = json_object_size(visit);
    }
    PASS(fits(s, state, h->next, first, &fit, e));
    if (fit && strcmp(name, s->ledger.user) < 0) json_object_update(h->before, first);
    if (fit) json_object_update(h->next, first);
    return OK;
}

enum status shares_make(struct stager *s, const json_t *state, struct shares *out, struct err *e)
{
    enum status st = OK;
    json_t *users = json_object_get(state, "users"), *user;
    const char **names = NULL, *name;
    int64_t n = 0;
    *out = (struct shares){json_object(), json_object(), json_object(), .first = true};
    ENSURE(out->pinned && out->before && out->next, ERR_NOMEM, "out of memory for shares");
    TRY(mem_zero(&names, (int64_t)json_object_size(users) + 1, sizeof *names, "users", e));
    json_object_foreach(users, name, user) if (json_object_size(json_object_get(user, "first")) &&
                                               stager_active(s, name)) names[n++] = name;
    qsort(names, (size_t)n, sizeof *names, by_name);
    for (int64_t i = 0; i < n; i++) TRY(add_first(s, state, names[i], out, e));
done:
    free(names);
    return st;
}

/* --- grants --- */

/* The space of visits that may not begin yet goes back if all that is granted takes more than there
 * is. Of the user with the first name one visit keeps it. */
static void take_back(struct stager *s, const json_t *state, const struct shares *h, bool *changed)
{
    bool keep = h->first;
    if (size_of_set(s, state, h->pinned) <= s->space) return;
    for (int64_t i = 0; i < s->n_visits; i++) {
        struct need *v = &s->visits[i];
        if (!v->granted || v->ready) continue;
        if (!keep) *changed = true;
        v->granted = keep;
        keep = false;
    }
}

enum status grants_fit_ahead(const struct stager *s, const json_t *state, const struct shares *h,
                             const struct need *v, bool *out, struct err *e)
{
    enum status st = OK;
    int64_t n;
    json_t *set = set_of(s, v), *beside = json_copy(h->pinned);
    ENSURE(set && beside && json_object_update(beside, h->next) == 0, ERR_NOMEM,
           "out of memory for what visits read");
    TRY(fits(s, state, beside, set, out, e));
    if (s->space > 0 && grants_used(state) + grants_missing(s, state, v, &n) > s->space)
        *out = *out && n == 0;
done:
    json_decref(set);
    json_decref(beside);
    return st;
}

/* The user's first visit must leave space to those of users before it; others, to all. */
static enum status grant(struct stager *s, const json_t *state, struct shares *h, struct need *v,
                         bool first, struct err *e)
{
    enum status st = OK;
    json_t *set = set_of(s, v), *beside = json_copy(h->pinned);
    ENSURE(set && beside && json_object_update(beside, h->before) == 0, ERR_NOMEM,
           "out of memory for what visits read");
    if (first)
        TRY(fits(s, state, beside, set, &v->granted, e));
    else
        TRY(grants_fit_ahead(s, state, h, v, &v->granted, e));
    if (!v->granted) goto done;
    json_object_update(h->pinned, set);
    if (json_object_size(set) > h->largest) h->largest = json_object_size(set);
done:
    json_decref(set);
    json_decref(beside);
    return st;
}

enum status grants_update(struct stager *s, const json_t *state, struct shares *h, bool *changed,
                          struct err *e)
{
    bool first = true;
    s->held = false;
    take_back(s, state, h, changed);
    for (int64_t i = 0; i < s->n_visits; i++) {
        struct need *v = &s->visits[i];
        if (!is_open(s, v)) continue;
        if (!v->granted) {
            PASS(grant(s, state, h, v, first, e));
            s->held = first && !v->granted;
            s->full = s->full || !v->granted;
            *changed = *changed || v->granted;
            if (!v->granted) return OK; /* in the order in which visits are handed out */
        }
        first = false;
    }
    return OK;
}

/* --- eviction --- */

/* After how many others an active user needs it; INT64_MAX: none does. */
static int64_t distance(struct stager *s, const json_t *state, const char *path)
{
    int64_t least = INT64_MAX;
    const char *name;
    json_t *user, *one;
    size_t i;
    json_object_foreach(json_object_get(state, "users"), name, user)
    {
        json_array_foreach(json_object_get(user, "needs"), i, one)
        {
            if ((int64_t)i >= least) break;
            if (strcmp(json_string_value(one), path) != 0) continue;
            if (stager_active(s, name)) least = (int64_t)i;
            break;
        }
    }
    return least;
}

static bool is_evictable(struct stager *s, const struct shares *h, const char *path,
                         const json_t *entry)
{
    if (json_object_get(h->pinned, path) || json_is_true(json_object_get(entry, "keep")))
        return false;
    return stager_entry_is(entry, "there") ||
           (stager_entry_is(entry, "claimed") && !stager_active(s, json_text(entry, "by", "")));
}

enum status grants_evict(struct stager *s, json_t *state, const struct shares *h, int64_t bytes,
                         bool *changed, struct err *e)
{
    json_t *all = json_object_get(state, "checkpoints"), *entry;
    while (grants_used(state) - grants_leaving(state) + bytes > s->space) {
        const char *path, *last = NULL;
        int64_t farthest = -1;
        json_object_foreach(all, path, entry)
        {
            if (!is_evictable(s, h, path, entry)) continue;
            const int64_t d = distance(s, state, path);
            if (d > farthest) last = path;
            if (d > farthest) farthest = d;
        }
        if (!last) return OK;
        PASS(stager_give_away(s, last, json_object_get(all, last), e));
        *changed = true;
    }
    return OK;
}

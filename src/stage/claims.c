/* A look at the ledger: what this user needs, what it removes, and what it fetches next. */
#include "stage/stager_internal.h"
#include "stage/tree.h"
#include "util/clock.h"
#include "util/fsx.h"
#include "util/mem.h"
#include "util/num.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

json_t *stager_entry(const json_t *state, const char *path)
{
    return json_object_get(json_object_get(state, "checkpoints"), path);
}

bool stager_entry_is(const json_t *entry, const char *word)
{
    return strcmp(json_text(entry, "state", ""), word) == 0;
}

bool stager_active(const struct stager *s, const char *user)
{
    const json_t *known = json_object_get(s->active, user);
    if (known) return json_is_true(known);
    const bool active = user[0] && ledger_active(&s->ledger, user);
    json_object_set_new(s->active, user, json_boolean(active));
    return active;
}

enum place stager_place(const struct stager *s, const json_t *state, const struct item *item)
{
    const json_t *entry = stager_entry(state, item->path);
    if (entry && stager_entry_is(entry, "removing")) return PLACE_LEAVING;
    if (fsx_is_dir(item->path)) return PLACE_THERE;
    if (!entry || stager_entry_is(entry, "there")) return PLACE_AWAY;
    if (stager_entry_is(entry, "failed")) return PLACE_FAILED;
    if (strcmp(json_text(entry, "by", ""), s->ledger.user) == 0) return PLACE_MINE;
    return stager_active(s, json_text(entry, "by", "")) ? PLACE_OTHERS : PLACE_AWAY;
}

/* --- needs --- */

static bool lists(const json_t *user, const char *path)
{
    size_t i;
    json_t *one;
    json_array_foreach(json_object_get(user, "needs"), i,
                       one) if (strcmp(json_string_value(one), path) == 0) return true;
    return false;
}

/* Whether any user needs it, active or not. */
static bool is_needed(const json_t *state, const char *path)
{
    const char *name;
    json_t *user;
    json_object_foreach(json_object_get(state, "users"), name,
                        user) if (lists(user, path)) return true;
    return false;
}

bool stager_satisfied(const struct stager *s, const struct need *v)
{
    for (int64_t k = 0; k < v->n; k++)
        if (!s->items[v->items[k]].there) return false;
    return true;
}

bool stager_failed(const struct stager *s, const struct need *v)
{
    for (int64_t k = 0; k < v->n; k++)
        if (s->items[v->items[k]].failed) return true;
    return false;
}

/* What the visits that have not ended need, in the order in which they do. */
static json_t *needs_of(struct stager *s)
{
    json_t *needs = json_array();
    for (int64_t i = 0; i < s->n_items; i++) s->items[i].needed = false;
    for (int64_t i = 0; i < s->n_visits; i++)
        for (int64_t k = 0; k < s->visits[i].n && !s->visits[i].ended; k++) {
            struct item *item = &s->items[s->visits[i].items[k]];
            if (!item->needed) json_array_append_new(needs, json_string(item->path));
            item->needed = true;
        }
    return needs;
}

/* Registers what this user needs: what its first visit reads, and those to which the space is
 * granted. What a user has needed is removed when none does; what was fetched ahead stays. */
static enum status register_needs(struct stager *s, json_t *state, bool *changed, struct err *e)
{
    enum status st = OK;
    json_t *users = json_object_get(state, "users"), *needs = needs_of(s);
    grants_look(s);
    json_t *now = json_pack("{s:o, s:o, s:o, s:o}", "needs", needs, "first", grants_first(s),
                            "granted", grants_held(s), "ready", grants_ready(s));
    ENSURE(now, ERR_NOMEM, "out of memory for what visits need");
    if (json_array_size(needs) == 0) {
        *changed = json_object_del(users, s->ledger.user) == 0 || *changed;
    } else if (!json_equal(now, json_object_get(users, s->ledger.user))) {
        json_object_set(users, s->ledger.user, now);
        *changed = true;
    }
    for (int64_t i = 0; i < s->n_items; i++) {
        json_t *entry = stager_entry(state, s->items[i].path);
        if (!s->items[i].needed || !entry || json_is_true(json_object_get(entry, "needed")))
            continue;
        json_object_set_new(entry, "needed", json_true());
        *changed = true;
    }
done:
    json_decref(now);
    return st;
}

/* Whether the user is of the same cut into parts as this one. */
static bool same_cut(const struct stager *s, const char *user)
{
    const char *own = strstr(s->ledger.user, "-of-"), *other = strstr(user, "-of-");
    return own && other && strcmp(own, other) == 0;
}

/* Those that have not begun are users too; of another cut they never will. A user that has a
 * journal has begun, and has registered itself or is through. */
static void register_others(const struct stager *s, json_t *state, bool *changed)
{
    json_t *users = json_object_get(state, "users"), *other, *user;
    const char *name;
    void *next;
    size_t i;
    json_object_foreach_safe(users, next, name, user)
    {
        if (!json_is_true(json_object_get(user, "expected")) || same_cut(s, name)) continue;
        json_object_del(users, name);
        *changed = true;
    }
    json_array_foreach(json_object_get(s->job, "others"), i, other)
    {
        name = json_text(other, "user", "");
        if (json_object_get(users, name) || fsx_is_file(json_text(other, "journal", ""))) continue;
        json_object_set_new(
            users, name,
            json_pack("{s:O, s:b}", "needs", json_object_get(other, "needs"), "expected", true));
        *changed = true;
    }
}

/* --- giving away --- */

/* The folder gets another name at once, so that nobody finds half of it. */
enum status stager_give_away(struct stager *s, const char *path, json_t *entry, struct err *e)
{
    enum status st = OK;
    char *removing = NULL;
    TRY(ledger_beside(path, "removing", &removing, e));
    ENSURE(rename(path, removing) == 0 || errno == ENOENT, fsx_errno_status(errno),
           "%s: cannot be removed: %s", path, strerror(errno));
    json_object_set_new(entry, "state", json_string("removing"));
    json_object_set_new(entry, "by", json_string(s->ledger.user));
    TRY(texts_add(&s->leaving, path, e));
done:
    free(removing);
    return st;
}

/* Whether it was fetched, whole or in part, for users of whom none needs it any more. */
static bool is_left_over(struct stager *s, const json_t *state, const char *path,
                         const json_t *entry)
{
    if (!json_is_true(json_object_get(entry, "needed")) || is_needed(state, path)) return false;
    if (stager_entry_is(entry, "there")) return !json_is_true(json_object_get(entry, "keep"));
    return stager_entry_is(entry, "claimed") && !stager_active(s, json_text(entry, "by", ""));
}

/* What is left over, removals that a process has left undone, and folders that were removed by
 * hand. */
static enum status clear(struct stager *s, json_t *state, bool *changed, struct err *e)
{
    const char *path;
    json_t *entry;
    void *next;
    json_object_foreach_safe(json_object_get(state, "checkpoints"), next, path, entry)
    {
        const char *by = json_text(entry, "by", "");
        const bool own = strcmp(by, s->ledger.user) == 0;
        if (stager_entry_is(entry, "there") && !fsx_is_dir(path))
            json_object_del(json_object_get(state, "checkpoints"), path);
        else if (is_left_over(s, state, path, entry) ||
                 (stager_entry_is(entry, "removing") && (own || !stager_active(s, by))))
            PASS(stager_give_away(s, path, entry, e));
        else
            continue;
        *changed = true;
    }
    return OK;
}

/* --- claiming --- */

/* Whether only what one visit reads takes space: no more can become free for it. */
static bool is_alone(const json_t *state, const struct shares *h)
{
    const char *path;
    json_t *entry;
    json_object_foreach(json_object_get(state, "checkpoints"), path,
                        entry) if (!stager_entry_is(entry, "failed") &&
                                   !json_object_get(h->pinned, path)) return false;
    return json_object_size(h->pinned) == h->largest;
}

/* The first visit that has not ended and reads the item; NULL: none. */
static const struct need *reader_of(const struct stager *s, const struct item *item)
{
    for (int64_t i = 0; i < s->n_visits; i++)
        for (int64_t k = 0; k < s->visits[i].n && !s->visits[i].ended; k++)
            if (&s->items[s->visits[i].items[k]] == item) return &s->visits[i];
    return NULL;
}

/* Claims the item, when so many bytes more fit; makes space for them. */
static enum status claim(struct stager *s, json_t *state, const struct shares *h, struct item *item,
                         bool *changed, struct err *e)
{
    const json_t *entry = stager_entry(state, item->path);
    const int64_t has = (int64_t)json_integer_value(json_object_get(entry, "bytes"));
    const int64_t expected = grants_expected(s, state, item->model);
    const int64_t bytes = max64(expected, has);
    if (s->space > 0 && grants_used(state) + bytes - has > s->space) {
        PASS(grants_evict(s, state, h, bytes - has, changed, e));
        if (!is_alone(state, h)) {
            s->full = true;
            return OK;
        }
    }
    const bool needed = is_needed(state, item->path);
    json_object_set_new(json_object_get(state, "checkpoints"), item->path,
                        json_pack("{s:s, s:I, s:s, s:b, s:s, s:b}", "state", "claimed", "bytes",
                                  (json_int_t)bytes, "by", s->ledger.user, "keep", item->keep,
                                  "name", item->name, "needed", needed));
    item->mine = true;
    *changed = true;
    return OK;
}

static bool is_away(const struct stager *s, const json_t *state, const struct item *item)
{
    return stager_place(s, state, item) == PLACE_AWAY;
}

static struct item *first_away(const struct stager *s, const json_t *state, const struct need *v)
{
    for (int64_t k = 0; k < v->n; k++)
        if (is_away(s, state, &s->items[v->items[k]])) return &s->items[v->items[k]];
    return NULL;
}

static bool may_fetch_for(const struct stager *s, const struct need *v)
{
    return s->space > 0 ? v->granted : !v->ended && !stager_failed(s, v);
}

/* What a granted visit of this user lacks; of who only fetches, what one of anybody lacks. */
static struct item *next_granted(const struct stager *s, const json_t *state,
                                 const struct shares *h)
{
    struct item *found = NULL;
    for (int64_t i = 0; s->uses && i < s->n_visits && !found; i++) {
        if (may_fetch_for(s, &s->visits[i])) found = first_away(s, state, &s->visits[i]);
    }
    for (int64_t i = 0; !s->uses && i < s->n_items && !found; i++)
        if (json_object_get(h->pinned, s->items[i].path) && is_away(s, state, &s->items[i]))
            found = &s->items[i];
    return found;
}

/* Who only fetches also does so ahead, into space that nobody waits for. */
static enum status next_ahead(struct stager *s, const json_t *state, const struct shares *h,
                              struct item **out, struct err *e)
{
    for (int64_t i = 0; !s->uses && i < s->n_visits; i++) {
        const struct need *v = &s->visits[i];
        bool fits;
        if (v->ended || stager_failed(s, v)) continue;
        *out = first_away(s, state, v);
        if (!*out) continue;
        PASS(grants_fit_ahead(s, state, h, v, &fits, e));
        if (fits) return OK;
        *out = NULL;
        s->full = true;
        return OK;
    }
    return OK;
}

static enum status claim_next(struct stager *s, json_t *state, const struct shares *h,
                              bool *changed, struct err *e)
{
    struct item *next = next_granted(s, state, h);
    if (!next) PASS(next_ahead(s, state, h, &next, e));
    return next ? claim(s, state, h, next, changed, e) : OK;
}

/* --- sizes that turn out larger --- */

/* Whether the first visit that reads the item could not have all that it reads on disk. */
static bool is_hopeless(const struct stager *s, const json_t *state, const struct item *item)
{
    const struct need *v = reader_of(s, item);
    int64_t sum = 0;
    for (int64_t k = 0; v && k < v->n; k++) {
        const struct item *one = &s->items[v->items[k]];
        const json_t *entry = stager_entry(state, one->path);
        sum += one != item && stager_entry_is(entry, "claimed")
                   ? tree_bytes(one->partial)
                   : (int64_t)json_integer_value(json_object_get(entry, "bytes"));
    }
    return sum > s->space;
}

enum status stager_measure(void *context, json_t *state, bool *changed, struct err *e)
{
    struct stager *s = context;
    struct item *item = &s->items[s->fetching];
    json_t *entry = stager_entry(state, item->path);
    const int64_t bytes = tree_bytes(item->partial);
    (void)e;
    if (!entry || bytes <= json_integer_value(json_object_get(entry, "bytes"))) return OK;
    json_object_set_new(entry, "bytes", json_integer((json_int_t)bytes));
    stager_note_bytes(state, item, bytes);
    *changed = true;
    if (grants_used(state) <= s->space) return OK;
    s->stalled = item;
    s->hopeless = is_hopeless(s, state, item);
    json_object_set_new(entry, "bytes", json_integer((json_int_t)(bytes + bytes / 4)));
    return OK;
}

/* The stalled checkpoint goes on when a quarter more than it had is free, or nothing else can
 * become free. */
static enum status look_at_stalled(struct stager *s, json_t *state, const struct shares *h,
                                   bool *changed, struct err *e)
{
    if (!s->stalled) return OK;
    PASS(grants_evict(s, state, h, 0, changed, e));
    if (grants_used(state) <= s->space || is_alone(state, h))
        s->stalled = NULL;
    else
        s->full = true;
    return OK;
}

/* Claims for which the space is no longer this user's; what is fetched ahead gives way as soon as
 * it does not fit. */
static void find_unwanted(struct stager *s, const struct shares *h)
{
    for (int64_t i = 0; i < s->n_items; i++) s->items[i].unwanted = s->items[i].mine;
    for (int64_t i = 0; i < s->n_visits; i++)
        for (int64_t k = 0; k < s->visits[i].n; k++) {
            struct item *item = &s->items[s->visits[i].items[k]];
            if (s->uses ? may_fetch_for(s, &s->visits[i])
                        : item != s->stalled || json_object_get(h->pinned, item->path) != NULL)
                item->unwanted = false;
        }
}

enum status stager_unclaim(void *context, json_t *state, bool *changed, struct err *e)
{
    struct stager *s = context;
    (void)e;
    for (int64_t i = 0; i < s->n_items; i++) {
        struct item *item = &s->items[i];
        json_t *entry = stager_entry(state, item->path);
        if (!item->unwanted) continue;
        if (stager_place(s, state, item) == PLACE_MINE) {
            if (s->stalled != item)
                json_object_set_new(entry, "bytes",
                                    json_integer((json_int_t)tree_bytes(item->partial)));
            json_object_del(entry, "by");
            *changed = true;
        }
        if (s->stalled == item) s->stalled = NULL;
        item->mine = item->unwanted = false;
    }
    return OK;
}

void stager_note_bytes(json_t *state, const struct item *item, int64_t bytes)
{
    json_t *models = json_object_get(state, "models");
    if (bytes <= ledger_model_bytes(state, item->model)) return;
    json_object_set_new(models, item->model, json_pack("{s:I}", "bytes", (json_int_t)bytes));
}

static void look_at_items(struct stager *s, json_t *state, bool *changed)
{
    for (int64_t i = 0; i < s->n_items; i++) {
        struct item *item = &s->items[i];
        const enum place place = stager_place(s, state, item);
        item->there = place == PLACE_THERE;
        item->seen = item->seen || item->there;
        item->failed = place == PLACE_FAILED;
        item->mine = place == PLACE_MINE;
        if (!item->there || ledger_model_bytes(state, item->model) >= 0) continue;
        stager_note_bytes(state, item, tree_bytes(item->path));
        *changed = true;
    }
}

/* What failed in an earlier run is tried again. */
static void forget_failures(const struct stager *s, json_t *state, bool *changed)
{
    json_t *all = json_object_get(state, "checkpoints");
    for (int64_t i = 0; i < s->n_items; i++)
        if (stager_entry_is(json_object_get(all, s->items[i].path), "failed"))
            *changed = json_object_del(all, s->items[i].path) == 0 || *changed;
}

/* What was fetched for a user, and has been removed for lack of space, is fetched again. */
static void look_at_ended(struct stager *s, const json_t *state)
{
    for (int64_t i = 0; i < s->n_visits; i++) {
        struct need *v = &s->visits[i];
        v->ended = stager_satisfied(s, v) || stager_failed(s, v) || v->ended;
        for (int64_t k = 0; k < v->n && v->ended && !stager_failed(s, v); k++) {
            const struct item *item = &s->items[v->items[k]];
            if (!item->there && is_needed(state, item->path)) v->ended = false;
        }
    }
}

/* Whether the command of a claimed checkpoint runs or may be started. */
static bool any_ready(const struct stager *s)
{
    for (int64_t i = 0; i < s->n_items; i++)
        if (s->items[i].mine && !s->items[i].unwanted &&
            s->items[i].not_before <= clock_seconds() && &s->items[i] != s->stalled)
            return true;
    return false;
}

/* Space is given to visits, and fetched into. */
static enum status share(struct stager *s, json_t *state, bool *changed, struct err *e)
{
    enum status st = OK;
    struct shares h = {0};
    TRY(shares_make(s, state, &h, e));
    if (s->uses && s->space > 0) {
        TRY(grants_update(s, state, &h, changed, e));
        TRY(register_needs(s, state, changed, e));
    }
    find_unwanted(s, &h);
    TRY(look_at_stalled(s, state, &h, changed, e));
    if (s->commands && !any_ready(s)) TRY(claim_next(s, state, &h, changed, e));
done:
    shares_free(&h);
    return st;
}

enum status stager_arrange(void *context, json_t *state, bool *changed, struct err *e)
{
    struct stager *s = context;
    json_object_clear(s->active);
    s->full = false;
    if (!s->begun && s->commands) forget_failures(s, state, changed);
    look_at_items(s, state, changed);
    if (!s->begun && s->uses) register_others(s, state, changed);
    /* Those that are only fetched are through when they are there. */
    if (!s->uses) look_at_ended(s, state);
    if (s->uses) PASS(register_needs(s, state, changed, e));
    PASS(clear(s, state, changed, e));
    return share(s, state, changed, e);
}

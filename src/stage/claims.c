/* Sharing the disk space with the other users of a ledger: what is needed, what is claimed and what
 * is given away. */
#include "stage/stager_internal.h"
#include "stage/tree.h"
#include "util/clock.h"
#include "util/fsx.h"
#include "util/mem.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static json_t *entry_of(const json_t *state, const char *path)
{
    return json_object_get(json_object_get(state, "checkpoints"), path);
}

static bool has_state(const json_t *entry, const char *word)
{
    return strcmp(json_text(entry, "state", ""), word) == 0;
}

static bool by_active(const struct stager *s, const json_t *entry)
{
    return ledger_active(&s->ledger, json_text(entry, "by", ""));
}

enum place stager_place(const struct stager *s, const json_t *state, const struct item *item)
{
    const json_t *entry = entry_of(state, item->path);
    if (entry && has_state(entry, "removing")) return PLACE_LEAVING;
    if (fsx_is_dir(item->path)) return PLACE_THERE;
    if (!entry || has_state(entry, "there")) return PLACE_AWAY;
    if (has_state(entry, "failed")) return PLACE_FAILED;
    if (strcmp(json_text(entry, "by", ""), s->ledger.user) == 0) return PLACE_MINE;
    return by_active(s, entry) ? PLACE_OTHERS : PLACE_AWAY;
}

/* --- needs --- */

static bool lists(const json_t *user, const char *list, const char *path)
{
    size_t i;
    json_t *one;
    json_array_foreach(json_object_get(user, list), i,
                       one) if (strcmp(json_string_value(one), path) == 0) return true;
    return false;
}

/* Whether any user needs it, active or not. */
static bool is_needed(const json_t *state, const char *path)
{
    const char *name;
    json_t *user;
    json_object_foreach(json_object_get(state, "users"), name,
                        user) if (lists(user, "needs", path)) return true;
    return false;
}

/* Whether another user that is active waits for it; NULL: for anything. */
static bool others_want(const struct stager *s, const json_t *state, const char *path)
{
    const char *name;
    json_t *user;
    json_object_foreach(json_object_get(state, "users"), name, user)
    {
        const bool waits = json_array_size(json_object_get(user, "wants")) > 0;
        if (!waits || strcmp(name, s->ledger.user) == 0) continue;
        if ((!path || lists(user, "wants", path)) && ledger_active(&s->ledger, name)) return true;
    }
    return false;
}

static bool is_satisfied(const struct stager *s, const struct need *v)
{
    for (int64_t k = 0; k < v->n; k++)
        if (!s->items[v->items[k]].there) return false;
    return true;
}

static bool is_failed(const struct stager *s, const struct need *v)
{
    for (int64_t k = 0; k < v->n; k++)
        if (s->items[v->items[k]].failed) return true;
    return false;
}

static bool can_work(const struct stager *s)
{
    for (int64_t i = 0; i < s->n_visits; i++)
        if (!s->visits[i].ended && s->visits[i].n > 0 && is_satisfied(s, &s->visits[i]))
            return true;
    return false;
}

/* The first visit that waits for something; NULL: none. */
static const struct need *first_waiting(const struct stager *s)
{
    for (int64_t i = 0; i < s->n_visits; i++) {
        const struct need *v = &s->visits[i];
        if (!v->ended && !is_satisfied(s, v) && !is_failed(s, v)) return v;
    }
    return NULL;
}

static json_t *paths_of(const struct stager *s, const struct need *v)
{
    json_t *list = json_array();
    for (int64_t k = 0; v && k < v->n; k++)
        json_array_append_new(list, json_string(s->items[v->items[k]].path));
    return list;
}

/* What the visits that have not ended need. */
static json_t *needs_of(struct stager *s)
{
    json_t *needs = json_array();
    for (int64_t i = 0; i < s->n_items; i++) s->items[i].needed = false;
    for (int64_t i = 0; i < s->n_visits; i++)
        for (int64_t k = 0; k < s->visits[i].n && !s->visits[i].ended; k++)
            s->items[s->visits[i].items[k]].needed = true;
    for (int64_t i = 0; i < s->n_items; i++)
        if (s->items[i].needed) json_array_append_new(needs, json_string(s->items[i].path));
    return needs;
}

static bool any_mine(const struct stager *s)
{
    for (int64_t i = 0; i < s->n_items; i++)
        if (s->items[i].mine) return true;
    return false;
}

/* --- giving away --- */

/* From now on it is this user's to remove. The folder gets another name at once, so that nobody
 * finds half of it. */
static enum status give_away(struct stager *s, const char *path, json_t *entry, struct err *e)
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

/* What this user has needed so far and needs no longer. */
static enum status release(struct stager *s, json_t *state, const json_t *before, struct err *e)
{
    size_t i;
    json_t *one;
    json_array_foreach(json_object_get(before, "needs"), i, one)
    {
        const char *path = json_string_value(one);
        json_t *entry = entry_of(state, path);
        if (!has_state(entry, "there") || json_is_true(json_object_get(entry, "keep"))) continue;
        if (!is_needed(state, path)) PASS(give_away(s, path, entry, e));
    }
    return OK;
}

/* Registers what this user needs, and what its first visit waits for if none can run and nothing is
 * being fetched for it. */
static enum status register_needs(struct stager *s, json_t *state, bool *changed, struct err *e)
{
    enum status st = OK;
    json_t *users = json_object_get(state, "users");
    json_t *before = json_incref(json_object_get(users, s->ledger.user)), *needs = needs_of(s);
    const bool waits = !can_work(s) && !any_mine(s);
    json_t *now = json_pack("{s:o, s:o}", "needs", needs, "wants",
                            paths_of(s, waits ? first_waiting(s) : NULL));
    ENSURE(now, ERR_NOMEM, "out of memory for what visits need");
    if (json_equal(now, before)) goto done;
    json_object_set(users, s->ledger.user, now);
    if (json_array_size(needs) == 0) json_object_del(users, s->ledger.user);
    *changed = true;
    TRY(release(s, state, before, e));
done:
    json_decref(before);
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
        json_object_set_new(users, name,
                            json_pack("{s:O, s:[], s:b}", "needs", json_object_get(other, "needs"),
                                      "wants", "expected", true));
        *changed = true;
    }
}

/* Whether a folder must stay though this user can do nothing before it gets space. Of its own it
 * needs what it waits for; of two users that wait, the one with the later name gives way. */
static bool is_protected(const struct stager *s, const json_t *state, const char *path)
{
    const char *name;
    json_t *user;
    json_object_foreach(json_object_get(state, "users"), name, user)
    {
        const int order = strcmp(name, s->ledger.user);
        const bool waits = json_array_size(json_object_get(user, "wants")) > 0;
        if (order > 0 && waits) continue;
        if (lists(user, order == 0 ? "wants" : "needs", path) && ledger_active(&s->ledger, name))
            return true;
    }
    return false;
}

/* Removals that a process has left undone, and folders that were removed by hand. starving: also
 * what is not protected. */
static enum status clear(struct stager *s, json_t *state, bool starving, bool *changed,
                         struct err *e)
{
    const char *path;
    json_t *entry;
    void *next;
    json_object_foreach_safe(json_object_get(state, "checkpoints"), next, path, entry)
    {
        const bool there = has_state(entry, "there"), removing = has_state(entry, "removing");
        const bool own = strcmp(json_text(entry, "by", ""), s->ledger.user) == 0;
        const bool idle = there || (has_state(entry, "claimed") && !by_active(s, entry));
        if (there && !fsx_is_dir(path))
            json_object_del(json_object_get(state, "checkpoints"), path);
        else if ((removing && (own || !by_active(s, entry))) ||
                 (starving && idle && !is_protected(s, state, path)))
            PASS(give_away(s, path, entry, e));
        else
            continue;
        *changed = true;
    }
    return OK;
}

/* --- claiming --- */

static int64_t bytes_used(const json_t *state)
{
    const char *path;
    json_t *entry;
    int64_t sum = 0;
    json_object_foreach(json_object_get(state, "checkpoints"), path,
                        entry) if (!has_state(entry, "failed")) sum +=
        (int64_t)json_integer_value(json_object_get(entry, "bytes"));
    return sum;
}

/* What the item will take on disk: the model's largest checkpoint so far, or all there is. */
static int64_t bytes_expected(const struct stager *s, const json_t *state, const struct item *item)
{
    const int64_t known = ledger_model_bytes(state, item->model);
    return known >= 0 ? known : s->space;
}

static bool is_away(const struct stager *s, const json_t *state, const struct item *item)
{
    return stager_place(s, state, item) == PLACE_AWAY;
}

/* Bytes of what the visit lacks and nobody has claimed; *n: how many those are. */
static int64_t bytes_missing(const struct stager *s, const json_t *state, const struct need *v,
                             int64_t *n)
{
    int64_t sum = 0;
    *n = 0;
    for (int64_t k = 0; k < v->n; k++) {
        const struct item *item = &s->items[v->items[k]];
        const json_t *entry = entry_of(state, item->path);
        if (!is_away(s, state, item)) continue;
        ++*n;
        /* of one that an earlier process claimed, bytes are counted already */
        sum += bytes_expected(s, state, item) -
               (int64_t)json_integer_value(json_object_get(entry, "bytes"));
    }
    return sum;
}

static void claim_all(struct stager *s, json_t *state, const struct need *v)
{
    for (int64_t k = 0; k < v->n; k++) {
        struct item *item = &s->items[v->items[k]];
        if (!is_away(s, state, item)) continue;
        json_object_set_new(json_object_get(state, "checkpoints"), item->path,
                            json_pack("{s:s, s:I, s:s, s:b, s:s}", "state", "claimed", "bytes",
                                      (json_int_t)bytes_expected(s, state, item), "by",
                                      s->ledger.user, "keep", item->keep, "name", item->name));
        item->mine = true;
    }
}

/* The stalled checkpoint goes on when so much is free, or when nothing else can become free. */
static bool has_room(const struct stager *s, const json_t *state)
{
    const int64_t bytes =
        (int64_t)json_integer_value(json_object_get(entry_of(state, s->stalled->path), "bytes"));
    const int64_t others = bytes_used(state) - bytes;
    return others == 0 || others + bytes + bytes / 4 <= s->space;
}

/* Whether the first visit that reads the item could not have all that it reads on disk. */
static bool is_hopeless(const struct stager *s, const json_t *state, int64_t item)
{
    for (int64_t i = 0; i < s->n_visits; i++) {
        const struct need *v = &s->visits[i];
        bool reads = false;
        int64_t sum = 0;
        for (int64_t k = 0; k < v->n && !v->ended; k++) {
            const json_t *entry = entry_of(state, s->items[v->items[k]].path);
            reads = reads || v->items[k] == item;
            sum += (int64_t)json_integer_value(json_object_get(entry, "bytes"));
        }
        if (reads) return sum > s->space;
    }
    return false;
}

enum status stager_measure(void *context, json_t *state, bool *changed, struct err *e)
{
    struct stager *s = context;
    struct item *item = &s->items[s->fetching];
    json_t *entry = entry_of(state, item->path);
    const int64_t bytes = tree_bytes(item->partial);
    (void)e;
    if (!entry || bytes <= json_integer_value(json_object_get(entry, "bytes"))) return OK;
    json_object_set_new(entry, "bytes", json_integer((json_int_t)bytes));
    stager_note_bytes(state, item, bytes);
    *changed = true;
    if (bytes_used(state) > s->space) s->stalled = item;
    s->hopeless = is_hopeless(s, state, s->fetching);
    return OK;
}

static bool is_wanted(const struct stager *s, const json_t *state, const struct need *v)
{
    for (int64_t k = 0; k < v->n; k++)
        if (others_want(s, state, s->items[v->items[k]].path)) return true;
    return false;
}

/* Claims what the next visit lacks, those first that others cannot work without; *short_of: it does
 * not fit. Those who can work leave the space to those who cannot. */
static void claim_next(struct stager *s, json_t *state, bool *changed, bool *short_of)
{
    const bool yields = s->uses && can_work(s) && others_want(s, state, NULL);
    *short_of = false;
    for (int wanted = 1; wanted >= 0; wanted--)
        for (int64_t i = 0; i < s->n_visits; i++) {
            const struct need *v = &s->visits[i];
            int64_t missing;
            if (is_failed(s, v) || (wanted ? !is_wanted(s, state, v) : v->ended || yields))
                continue;
            const int64_t bytes = bytes_missing(s, state, v, &missing);
            if (missing == 0) continue;
            *short_of = s->space > 0 && bytes_used(state) + bytes > s->space;
            if (!*short_of) claim_all(s, state, v);
            *changed = *changed || !*short_of;
            return;
        }
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
        if (has_state(json_object_get(all, s->items[i].path), "failed"))
            *changed = json_object_del(all, s->items[i].path) == 0 || *changed;
}

/* What was fetched for a user, and has been removed for lack of space, is fetched again. */
static void look_at_ended(struct stager *s, const json_t *state)
{
    for (int64_t i = 0; i < s->n_visits; i++) {
        struct need *v = &s->visits[i];
        v->ended = is_satisfied(s, v) || is_failed(s, v) || v->ended;
        for (int64_t k = 0; k < v->n && v->ended && !is_failed(s, v); k++) {
            const struct item *item = &s->items[v->items[k]];
            if (!item->there && is_needed(state, item->path)) v->ended = false;
        }
    }
}

/* Whether the command of a claimed checkpoint runs or may be started. */
static bool any_ready(const struct stager *s)
{
    for (int64_t i = 0; i < s->n_items; i++)
        if (s->items[i].mine && s->items[i].not_before <= clock_seconds() &&
            &s->items[i] != s->stalled)
            return true;
    return false;
}

enum status stager_arrange(void *context, json_t *state, bool *changed, struct err *e)
{
    struct stager *s = context;
    bool short_of = false;
    if (!s->begun && s->commands) forget_failures(s, state, changed);
    look_at_items(s, state, changed);
    if (!s->begun && s->uses) register_others(s, state, changed);
    /* Those that are only fetched are through when they are there. */
    if (!s->uses) look_at_ended(s, state);
    if (s->uses) PASS(register_needs(s, state, changed, e));
    PASS(clear(s, state, false, changed, e));
    if (s->stalled && has_room(s, state)) s->stalled = NULL;
    short_of = s->stalled != NULL;
    if (!short_of && s->commands && !any_ready(s)) claim_next(s, state, changed, &short_of);
    if (short_of && (s->uses ? !can_work(s) : others_want(s, state, NULL))) {
        PASS(clear(s, state, true, changed, e));
        if (!s->stalled) claim_next(s, state, changed, &short_of);
    }
    s->full = short_of;
    return OK;
}

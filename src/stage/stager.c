#include "stage/stager.h"
#include "checkpoint/checkpoint.h"
#include "results/lock.h"
#include "stage/claims.h"
#include "stage/fetch.h"
#include "stage/ledger.h"
#include "stage/tree.h"
#include "util/clock.h"
#include "util/fsx.h"
#include "util/log.h"
#include "util/mem.h"
#include "util/quantity.h"
#include <errno.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* Seconds between two looks at the ledger. */
static const double often = 0.2;

static const char too_much[] = "was ended: what its visit reads takes more than run.stage_space";

struct stager {
    json_t *job, *items;       /* an item has also "tries", "not_before" and "seen" */
    const char *folder, *user; /* borrowed from the job */
    struct lock *held;
    int64_t space;
    atomic_bool *ended;         // (visits)
    json_t *item;               /* what this user fetches, borrowed from items; NULL: nothing */
    const char *partial, *path; /* of that */
    enum claim claim;           /* of that, as the last look found it */
    struct fetch fetch;
    double start, next; /* clock_seconds of the command's start, and of the next look */
    bool begun, last;
    struct stager_counts counts;
};

enum status stager_open(json_t *job, struct stager **out, struct err *e)
{
    enum status st = OK;
    struct stager *s = NULL;
    TRY(mem_zero(&s, 1, sizeof *s, "the stager", e));
    s->job = json_incref(job);
    s->items = json_object_get(job, "items");
    s->folder = json_text(job, "folder", "");
    s->user = json_text(job, "user", "");
    s->space = claims_number(job, "space");
    TRY(mem_zero(&s->ended, (int64_t)json_array_size(json_object_get(job, "visits")),
                 sizeof *s->ended, "visits", e));
    TRY(ledger_enter(s->folder, s->user, &s->held, e));
    *out = s;
    s = NULL;
done:
    json_decref(job);
    stager_close(s);
    return st;
}

void stager_close(struct stager *s)
{
    if (!s) return;
    fetch_stop(&s->fetch);
    lock_release(s->held);
    json_decref(s->job);
    free(s->ended);
    free(s);
}

/* --- folders --- */

/* A file that is written into a fetched folder at the end. */
static enum status marker_of(const char *folder, char **out, struct err *e)
{
    return mem_format(out, e, "%s/.staged-by-qtraj", folder);
}

static enum status write_marker(const char *folder, struct err *e)
{
    enum status st = OK;
    char *marker = NULL;
    static const char text[] = "fetched by `stage` of a sweep, which removes it after its use\n";
    TRY(tree_sync(folder, e));
    TRY(marker_of(folder, &marker, e));
    TRY(fsx_write_atomic(marker, text, sizeof text - 1, e));
done:
    free(marker);
    return st;
}

static bool is_fetched(const char *path)
{
    char *marker = NULL;
    const bool fetched = marker_of(path, &marker, NULL) == OK && fsx_is_file(marker);
    free(marker);
    return fetched;
}

/* Whether all files of a checkpoint are there, and whole; else e says what is wrong. */
static bool is_whole(const char *folder, struct err *e)
{
    struct checkpoint *c = NULL;
    const bool whole = checkpoint_open(folder, &c, e) == OK;
    checkpoint_close(c);
    return whole;
}

/* It is there. Its config.json is kept, where a plan finds the model's shape when no checkpoint is
 * on disk. */
static enum status note(const struct stager *s, json_t *state, const json_t *item, const char *word,
                        struct err *e)
{
    enum status st = OK;
    char *from = NULL, *folder = NULL, *to = NULL, *text = NULL;
    size_t n;
    const char *path = json_text(item, "path", "");
    claims_settle(state, item, word, tree_bytes(path), NULL);
    TRY(mem_format(&from, e, "%s/config.json", path));
    TRY(ledger_shape(s->folder, json_text(item, "model", ""), &folder, e));
    TRY(mem_format(&to, e, "%s/config.json", folder));
    if (fsx_is_file(to)) goto done;
    TRY(fsx_read(from, 0, &text, &n, e));
    TRY(fsx_make_parent(to, e));
    TRY(fsx_write_atomic(to, text, n, e));
done:
    free(from);
    free(folder);
    free(to);
    free(text);
    return st;
}

/* A folder that no stager has fetched is used if it is a whole checkpoint, and left as it is. */
static enum status judge(const struct stager *s, json_t *state, const json_t *item, struct err *e)
{
    char message[1024];
    struct err own = {0};
    if (is_whole(json_text(item, "path", ""), &own)) return note(s, state, item, "own", e);
    snprintf(message, sizeof message,
             "%s: is there, but not fetched by `stage`, and no whole checkpoint (%s); complete or "
             "remove it, `stage` does neither",
             json_text(item, "path", ""), own.text);
    claims_settle(state, item, "failed", 0, message);
    return OK;
}

/* --- a look at the ledger --- */

/* What an earlier process of this user had, and what others had who are gone, is nobody's. */
static enum status bury(const struct stager *s, json_t *state, struct err *e)
{
    json_t *users = json_object_get(state, "users"), *active = json_object(), *one;
    const char *name, *life = json_text(json_object_get(users, s->user), "life", "");
    json_object_foreach(users, name, one)
    {
        const bool is = strcmp(name, s->user) == 0 ? s->begun : ledger_active(s->folder, name);
        json_object_set_new(active, name, json_boolean(is));
    }
    NEED(
        !s->begun || strcmp(life, json_text(s->job, "life", "")) == 0, ERR_IO,
        "%s: this process did not renew its lock and was taken for dead; checkpoints that it reads "
        "may be gone, start again to go on",
        s->folder);
    claims_bury(state, active);
    json_decref(active);
    return OK;
}

/* What the state says is compared with what is on disk: folders that were removed by hand, that
 * were there before, or got their name just before their process was killed. */
static enum status look_at_disk(const struct stager *s, json_t *state, struct err *e)
{
    json_t *all = json_object_get(state, "checkpoints"), *entry, *item;
    const char *path;
    void *next;
    size_t i;
    json_object_foreach_safe(all, next, path, entry)
    {
        const bool again = !s->begun && claims_is(entry, "failed"), fetched = is_fetched(path);
        if (claims_is(entry, "fetching") && !json_object_get(entry, "by")) {
            char *partial;
            PASS(ledger_beside(path, "partial", &partial, e));
            json_object_set_new(entry, "bytes", json_integer(tree_bytes(fetched ? path : partial)));
            free(partial);
            if (fetched) json_object_set_new(entry, "state", json_string("there"));
        } else if (again || (claims_is(entry, "there") && !fetched) ||
                   (claims_is(entry, "own") && !fsx_is_dir(path))) {
            json_object_del(all, path);
        }
    }
    json_array_foreach(s->items, i, item)
    {
        path = json_text(item, "path", "");
        if (!s->begun && !claims_entry(state, path) && fsx_is_dir(path))
            PASS(judge(s, state, item, e));
    }
    return OK;
}

static enum status remove_one(const char *path, struct err *e)
{
    static const char *const what[] = {"partial", "removing"};
    enum status st = OK;
    char *beside = NULL;
    for (int i = 0; i < 2 && st == OK; i++) {
        free(beside);
        PASS(ledger_beside(path, what[i], &beside, e));
        st = tree_remove(beside, e);
    }
    if (st == OK && is_fetched(path)) {
        if (rename(path, beside) == 0)
            st = tree_remove(beside, e);
        else
            st = err_set(e, fsx_errno_status(errno), __FILE__, __LINE__,
                         "%s: cannot be removed: %s", path, strerror(errno));
    }
    free(beside);
    return st;
}

/* Removes what an earlier look has found, so that the state says so whenever this process dies. */
static enum status remove_condemned(struct stager *s, json_t *state, struct err *e)
{
    json_t *all = json_object_get(state, "checkpoints"), *entry;
    const char *path;
    void *next;
    json_object_foreach_safe(all, next, path, entry)
    {
        if (!claims_is(entry, "removing")) continue;
        PASS(remove_one(path, e));
        log_trace("stage", "removed %s", path);
        json_object_del(all, path);
        s->next = 0;
    }
    return OK;
}

/* What the visits that have not ended need, in their order; those that have hold no lease. */
static void register_visits(struct stager *s, json_t *state)
{
    json_t *needs = json_array(), *item, *visit, *one;
    size_t i, k;
    json_array_foreach(s->items, i, item) json_object_set_new(item, "needed", json_false());
    json_array_foreach(json_object_get(s->job, "visits"), i, visit)
    {
        const bool ended = s->ended[i];
        if (ended) claims_end(state, s->user, (int64_t)i);
        json_array_foreach(visit, k, one)
        {
            item = json_array_get(s->items, (size_t)json_integer_value(one));
            if (ended || json_is_true(json_object_get(item, "needed"))) continue;
            json_object_set_new(item, "needed", json_true());
            if (json_is_true(json_object_get(s->job, "uses")))
                json_array_append(needs, json_object_get(item, "path"));
        }
    }
    claims_register(state, s->user, json_text(s->job, "life", ""), needs);
    json_decref(needs);
}

static void count(struct stager *s, const json_t *state)
{
    const double now = clock_seconds();
    json_t *item;
    size_t i;
    s->counts = (struct stager_counts){.items = (int64_t)json_array_size(s->items), .all = true};
    json_array_foreach(s->items, i, item)
    {
        const char *path = json_text(item, "path", "");
        const json_t *entry = claims_entry(state, path);
        const bool there = claims_there(entry), failed = claims_is(entry, "failed");
        const bool seen = there || json_is_true(json_object_get(item, "seen"));
        const bool later = json_number_get(json_object_get(item, "not_before")) > now;
        json_object_set_new(item, "seen", json_boolean(seen));
        json_object_set_new(item, "later", json_boolean(later));
        s->counts.there += seen;
        s->counts.failed += failed;
        if (there || failed) continue;
        if (!seen || claims_needed(state, path))
            s->counts.all = false;
        else /* it has been read */
            json_object_set_new(item, "needed", json_false());
    }
}

static enum status arrange(void *context, json_t *state, struct err *e)
{
    struct stager *s = context;
    PASS(bury(s, state, e));
    PASS(remove_condemned(s, state, e));
    PASS(look_at_disk(s, state, e));
    register_visits(s, state);
    claims_tidy(state);
    count(s, state);
    if (s->item) {
        s->claim = claims_measure(state, s->user, s->item, tree_bytes(s->partial), s->space);
    } else if (json_is_true(json_object_get(s->job, "commands")) && !s->last) {
        s->item = claims_fetch(state, s->user, s->items, s->space, &s->counts.full);
        s->partial = json_text(s->item, "partial", "");
        s->path = json_text(s->item, "path", "");
        s->claim = CLAIM_FITS;
    }
    s->begun = true;
    return OK;
}

/* --- fetching --- */

/* It is there, if it is whole; else it is given back. */
static enum status settle(void *stager, json_t *state, struct err *e)
{
    struct stager *s = stager;
    if (fsx_is_dir(s->path))
        return judge(s, state, s->item, e); /* somebody else has put it there */
    if (!is_fetched(s->partial)) {
        (void)rmdir(s->partial); /* if there is nothing in it */
        claims_settle(state, s->item, "fetching", tree_bytes(s->partial), NULL);
        return OK;
    }
    NEED(rename(s->partial, s->path) == 0, fsx_errno_status(errno), "%s: %s", s->path,
         strerror(errno));
    PASS(fsx_sync_parent(s->path, e));
    return note(s, state, s->item, "there", e);
}

static enum status give_up(void *stager, json_t *state, struct err *e)
{
    struct stager *s = stager;
    PASS(tree_remove(s->partial, e));
    claims_settle(state, s->item, "failed", 0, json_text(s->item, "fault", ""));
    log_warn("%s", json_text(s->item, "fault", ""));
    return OK;
}

/* So much is free on the disk as is still to be fetched, as far as that is known. */
static enum status check_disk(const struct stager *s, int64_t bytes, struct err *e)
{
    struct statvfs disk;
    char left[QUANTITY], needed[QUANTITY];
    if (statvfs(s->partial, &disk) != 0) return OK;
    const double is_free = (double)disk.f_bavail * (double)disk.f_frsize;
    quantity_prefix(is_free, left);
    quantity_prefix((double)bytes, needed);
    NEED(is_free >= (double)bytes, ERR_FULL,
         "%s: %sB are free on its disk and %sB are to be fetched; make space, or limit "
         "run.stage_space, and start again",
         s->partial, left, needed);
    return OK;
}

/* Another try after a while; after the last its cells fail. */
static enum status fail(struct stager *s, const char *fault, bool never, struct err *e)
{
    const int64_t tries = claims_number(s->item, "tries") + 1,
                  most = claims_number(s->job, "tries"), a_little = 1 << 20;
    const double pause = json_number_get(json_object_get(s->job, "pause")) *
                         ldexp(1, tries < 40 ? (int)tries - 1 : 39);
    const char *log = json_text(s->item, "log", ""), *name = json_text(s->item, "name", "");
    PASS(check_disk(s, a_little, e));
    json_object_set_new(s->item, "tries", json_integer(tries));
    json_object_set_new(s->item, "not_before", json_real(clock_seconds() + pause));
    if (never || tries >= most) {
        json_object_set_new(s->item, "fault",
                            json_sprintf("%s: could not be staged in %lld tr%s; the last time, the "
                                         "command %s; its output is in %s",
                                         s->path, (long long)tries, tries == 1 ? "y" : "ies", fault,
                                         log));
        return ledger_update(s->folder, give_up, s, e);
    }
    log_warn("staging %s: the command %s (try %lld of %lld; the next in %.3g s; output: %s)", name,
             fault, (long long)tries, (long long)most, pause, log);
    return ledger_update(s->folder, settle, s, e);
}

static enum status end_fetch(struct stager *s, const char *how, struct err *e)
{
    char fault[400], took[QUANTITY];
    struct err own = {0};
    if (how[0]) return fail(s, how, false, e);
    if (!is_whole(s->partial, &own)) {
        snprintf(fault, sizeof fault, "left no whole checkpoint (%.300s)", own.text);
        return fail(s, fault, false, e);
    }
    PASS(ledger_update(s->folder, arrange, s, e)); /* its size */
    if (s->claim == CLAIM_NEVER) return fail(s, too_much, true, e);
    if (s->claim == CLAIM_LOST) return OK;
    quantity_time(clock_seconds() - s->start, took);
    log_info("staged %s in %s", json_text(s->item, "name", ""), took);
    PASS(write_marker(s->partial, e));
    return ledger_update(s->folder, settle, s, e);
}

static enum status begin_fetch(struct stager *s, struct err *e)
{
    json_t *state;
    s->start = clock_seconds();
    NEED(mkdir(s->partial, 0777) == 0 || errno == EEXIST, fsx_errno_status(errno),
         "%s: `stage` cannot make this folder: %s", s->partial, strerror(errno));
    PASS(ledger_read(s->folder, &state, e));
    const int64_t bytes = claims_model_bytes(state, json_text(s->item, "model", ""));
    json_decref(state);
    PASS(check_disk(s, bytes - tree_bytes(s->partial), e));
    if (!fsx_is_dir(s->path))
        PASS(fetch_start(&s->fetch, json_object_get(s->item, "command"),
                         json_text(s->item, "log", ""), e));
    if (s->fetch.pid > 0) {
        log_trace("stage", "fetching %s into %s", json_text(s->item, "name", ""), s->partial);
        return OK;
    }
    PASS(ledger_update(s->folder, settle, s, e)); /* an earlier process's command still runs */
    s->item = NULL;
    return OK;
}

enum status stager_step(struct stager *s, struct err *e)
{
    char fault[64];
    if (s->fetch.pid > 0 && fetch_ended(&s->fetch, fault)) {
        PASS(end_fetch(s, fault, e));
        s->item = NULL;
        s->next = 0;
    }
    if (clock_seconds() < s->next) return OK;
    s->next = clock_seconds() + often;
    PASS(ledger_update(s->folder, arrange, s, e));
    if (s->item && s->claim != CLAIM_FITS) { /* it goes on when there is more space */
        fetch_stop(&s->fetch);
        if (s->claim == CLAIM_NEVER) PASS(fail(s, too_much, true, e));
        s->item = NULL;
    }
    return s->item && s->fetch.pid == 0 ? begin_fetch(s, e) : OK;
}

enum status stager_finish(struct stager *s, struct err *e)
{
    fetch_stop(&s->fetch);
    s->item = NULL;
    s->last = true;
    PASS(ledger_update(s->folder, arrange, s, e));
    return ledger_update(s->folder, arrange, s, e); /* removes what the first has found */
}

void stager_end_visit(struct stager *s, int64_t visit)
{
    s->ended[visit] = true;
}

struct stager_counts stager_count(const struct stager *s)
{
    return s->counts;
}

/* --- those who run visits --- */

struct ask {
    const json_t *stage;
    bool leased;
};

static enum status ask(void *context, json_t *state, struct err *e)
{
    struct ask *a = context;
    (void)e;
    a->leased = claims_ask(state, a->stage, claims_number(a->stage, "space"));
    return OK;
}

enum await_state await_look(const json_t *stage, bool asks, char message[512])
{
    struct ask a = {.stage = stage, .leased = !asks};
    struct err e = {0};
    const char *folder = json_text(stage, "folder", ""), *path;
    json_t *state = NULL, *before, *model;
    bool there = true;
    message[0] = '\0';
    if (asks && ledger_read(folder, &state, NULL) != OK) return AWAIT_WAITS;
    before = json_deep_copy(state);
    json_object_foreach(json_object_get(stage, "reads"), path, model)
    {
        const json_t *entry = claims_entry(state, path);
        if (claims_is(entry, "failed"))
            snprintf(message, 512, "%s", json_text(entry, "message", ""));
        there = there && fsx_is_dir(path);
    }
    /* The lock is taken only where something changes. */
    if (asks && !message[0] && ask(&a, state, &e) == OK && !json_equal(before, state) &&
        ledger_update(folder, ask, &a, &e) != OK)
        snprintf(message, 512, "%s", e.text);
    json_decref(before);
    json_decref(state);
    return message[0] ? AWAIT_FAILED : there && a.leased ? AWAIT_THERE : AWAIT_WAITS;
}

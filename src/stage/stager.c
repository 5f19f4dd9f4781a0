#include "stage/stager.h"
#include "checkpoint/checkpoint.h"
#include "records/lock.h"
#include "stage/fetch.h"
#include "stage/ledger.h"
#include "stage/tree.h"
#include "util/clock.h"
#include "util/fsx.h"
#include "util/log.h"
#include "util/mem.h"
#include "util/num.h"
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

enum outcome { RUNS, BROUGHT, AGAIN, FAILED };

struct stager {
    json_t *job, *items;       /* an item has also "tries", "not_before" and "seen" */
    json_t *wanted;            /* what visits that have not ended read, in their order */
    const char *folder, *user; /* borrowed from the job, as are all texts */
    struct lock *held;
    int64_t space;
    atomic_bool *ended;         // (visits)
    const char *path, *partial; /* what this user fetches (NULL: nothing), and where to */
    json_t *item;               /* of that */
    struct fetch fetch;
    enum outcome outcome;
    char fault[600];           /* FAILED: why */
    int64_t bytes;             /* that it has brought */
    double start, moved, next; /* clock_seconds of the command's start, of its last byte, and of the
                                  next look */
    bool begun, last;
    struct stager_counts counts;
};

enum status stager_open(json_t *job, struct stager **out, struct err *e)
{
    enum status st = OK;
    char *path = NULL;
    struct stager *s;
    json_t *visits = json_object_get(job, "visits");
    TRY(mem_zero(out, 1, sizeof **out, "the stager", e));
    s = *out;
    s->job = json_incref(job);
    s->items = json_object_get(job, "items");
    s->folder = json_text(job, "folder", "");
    s->user = json_text(job, "user", "");
    s->space = claims_number(job, "space");
    TRY(mem_zero(&s->ended, (int64_t)json_array_size(visits), sizeof *s->ended, "visits", e));
    TRY(ledger_file(s->folder, s->user, "user", &path, e));
    TRY(fsx_make_parent(path, e));
    TRY(lock_take(path, &(struct lock_options){.create = true}, &s->held, e));
done:
    free(path);
    json_decref(job);
    return st;
}

/* --- the state and the disk --- */

/* Whether all files of a checkpoint are there, and whole; else e says what is wrong. */
static bool is_whole(const char *folder, struct err *e)
{
    struct checkpoint *c = NULL;
    const bool whole = checkpoint_open(folder, &c, e) == OK;
    checkpoint_close(c);
    return whole;
}

/* The first config.json of a model is kept, where a plan finds its shape when no checkpoint is on
 * disk. */
static enum status keep_shape(const struct stager *s, const char *model, const char *path,
                              struct err *e)
{
    enum status st = OK;
    char *from = NULL, *to = NULL, *text = NULL;
    size_t n;
    TRY(mem_format(&from, e, "%s/config.json", path));
    TRY(ledger_file(s->folder, model, "shape/config.json", &to, e));
    if (fsx_is_file(to)) goto done;
    TRY(fsx_read(from, 0, &text, &n, e));
    TRY(fsx_make_parent(to, e));
    TRY(fsx_write_atomic(to, text, n, e));
done:
    free(from);
    free(to);
    free(text);
    return st;
}

/* A folder has its name. One that no stager has fetched is used if it is a whole checkpoint, and
 * left as it is. */
static enum status note(const struct stager *s, json_t *state, const char *path, struct err *e)
{
    struct err own = {0};
    const char *model = json_text(json_object_get(s->items, path), "model", "");
    const char *word = ledger_has_fetched(path) ? "there" : is_whole(path, &own) ? "own" : "failed";
    err_prefix(&own,
               "%s: is there, but not fetched by `stage`, and no whole checkpoint; complete or "
               "remove it, `stage` does neither",
               path);
    claims_set_state(state, path, model, word, tree_bytes(path), own.text);
    const bool mine = model[0] && claims_there(claims_entry(state, path));
    return mine ? keep_shape(s, model, path, e) : OK;
}

/* The state follows the disk, unless a process fetches the checkpoint: folders that were there
 * before or were removed by hand, that got or lost their name just before their process was killed.
 * A fetch whose process is gone keeps its space while its command still writes. */
static enum status look_at(const struct stager *s, json_t *state, const char *path, struct err *e)
{
    enum status st = OK;
    json_t *entry = claims_entry(state, path);
    const bool fetching = claims_is(entry, "fetching"), there = claims_is(entry, "there");
    char *log = NULL, *partial = NULL;
    if (fetching && !claims_left(entry) && !claims_orphaned(state, entry)) return OK;
    if (there && ledger_has_fetched(path)) return OK;
    if (claims_is(entry, "own") && fsx_is_dir(path)) return OK;
    if (claims_is(entry, "failed") && s->begun) return OK;
    if (fsx_is_dir(path)) return note(s, state, path, e);
    TRY(ledger_file(s->folder, path, "log", &log, e));
    TRY(ledger_partial(path, &partial, e));
    if (claims_orphaned(state, entry) && fetch_runs(log))
        (void)claims_measure(state, path, tree_bytes(partial), s->space);
    else if (fetching || there)
        claims_set_state(state, path, "", "fetching", tree_bytes(partial), NULL);
    else
        json_object_del(json_object_get(state, "checkpoints"), path);
done:
    free(log);
    free(partial);
    return st;
}

static enum status look_at_disk(const struct stager *s, json_t *state, struct err *e)
{
    json_t *one;
    const char *path;
    void *next;
    json_object_foreach_safe(json_object_get(state, "checkpoints"), next, path, one)
        PASS(look_at(s, state, path, e));
    json_object_foreach(s->items, path, one) if (!s->begun) PASS(look_at(s, state, path, e));
    return OK;
}

/* --- a look at the ledger --- */

/* What an earlier process of this user had, and what others had who are gone, is nobody's. */
static enum status bury(const struct stager *s, json_t *state, struct err *e)
{
    json_t *users = json_object_get(state, "users"), *one;
    const char *name, *life = json_text(json_object_get(users, s->user), "life", "");
    NEED(
        !s->begun || strcmp(life, json_text(s->job, "life", "")) == 0, ERR_IO,
        "%s: this process did not renew its lock and was taken for dead; checkpoints that it reads "
        "may be gone, start again to go on",
        s->folder);
    json_object_foreach(users, name, one)
    {
        char *path;
        PASS(ledger_file(s->folder, name, "user", &path, e));
        if (strcmp(name, s->user) == 0 ? !s->begun : !lock_look(path).held)
            json_object_del(one, "life");
        free(path);
    }
    claims_bury(state);
    return OK;
}

/* What was fetched gets its name, if it still has its space; what was not is given up. */
static enum status end_command(struct stager *s, json_t *state, struct err *e)
{
    const char *path = s->path;
    s->path = NULL;
    (void)rmdir(s->partial); /* if there is nothing in it */
    json_object_set_new(claims_entry(state, path), "by", json_string(""));
    if (fsx_is_dir(path) || s->outcome == AGAIN) return OK; /* look_at goes on */
    if (s->outcome == BROUGHT) {
        const bool fits = claims_measure(state, path, tree_bytes(s->partial), s->space);
        return fits ? fsx_publish(s->partial, path, e) : OK;
    }
    claims_set_state(state, path, "", "failed", 0, s->fault);
    return tree_remove(s->partial, e);
}

/* What the visits that have not ended need, in their order; those that have hold no lease. Who only
 * fetches needs nothing, and wants what has not been there yet, and what was removed too early. */
static void register_visits(struct stager *s, json_t *state)
{
    const bool uses = claims_flag(s->job, "uses");
    json_t *visit, *item;
    const char *path;
    size_t i;
    json_decref(s->wanted);
    s->wanted = json_object();
    json_array_foreach(json_object_get(s->job, "visits"), i, visit)
    {
        if (s->ended[i])
            claims_end(state, json_text(visit, "visit", ""));
        else
            json_object_update_missing(s->wanted, json_object_get(visit, "reads"));
    }
    claims_register(state, s->user, json_text(s->job, "life", ""), uses ? s->wanted : NULL);
    s->counts = (struct stager_counts){.items = (int64_t)json_object_size(s->items)};
    json_object_foreach(s->items, path, item)
    {
        const json_t *entry = claims_entry(state, path);
        const bool there = claims_there(entry), failed = claims_is(entry, "failed");
        if (there) json_object_set_new(item, "seen", json_true());
        const bool seen = claims_flag(item, "seen"), wanted = !seen || claims_needed(state, path);
        if (!uses && !wanted) json_object_del(s->wanted, path);
        s->counts.there += seen;
        s->counts.failed += failed;
        s->counts.left += wanted && !there && !failed;
    }
}

static enum status look(void *context, json_t *state, struct err *e)
{
    struct stager *s = context;
    PASS(bury(s, state, e));
    if (s->path && s->outcome != RUNS) PASS(end_command(s, state, e));
    PASS(look_at_disk(s, state, e));
    register_visits(s, state);
    if (s->path) {
        const int64_t bytes = tree_bytes(s->partial);
        if (bytes != s->bytes) s->moved = clock_seconds();
        s->bytes = bytes;
        if (!claims_measure(state, s->path, bytes, s->space)) s->path = NULL;
    } else if (claims_flag(s->job, "commands") && !s->last) {
        s->path = claims_fetch(state, s->user, s->items, s->wanted, s->space, clock_seconds(),
                               &s->counts.full);
        s->item = json_object_get(s->items, s->path ? s->path : "");
        s->partial = json_text(s->item, "partial", "");
        s->outcome = RUNS;
    }
    claims_tidy(state);
    return OK;
}

/* --- fetching --- */

/* So much is free on the disk as is still to be fetched, as far as that is known. */
static enum status check_disk(const struct stager *s, int64_t bytes, struct err *e)
{
    struct statvfs disk;
    char left[QUANTITY], needed[QUANTITY];
    if (statvfs(s->partial, &disk) != 0) return OK;
    const double available = (double)disk.f_bavail * (double)disk.f_frsize;
    quantity_prefix(available, left);
    quantity_prefix((double)bytes, needed);
    NEED(available >= (double)bytes, ERR_FULL,
         "%s: %sB are free on its disk and %sB are to be fetched; make space, or limit "
         "run.stage_space, and start again",
         s->partial, left, needed);
    return OK;
}

/* Another try after a while; after the last its cells fail. */
static enum status fail(struct stager *s, const char *how, struct err *e)
{
    const int64_t tries = claims_number(s->item, "tries") + 1,
                  most = claims_number(s->job, "tries"), a_little = 1 << 20;
    const double pause =
        json_number_get(json_object_get(s->job, "pause")) * ldexp(1, (int)min64(tries - 1, 39));
    PASS(check_disk(s, a_little, e));
    json_object_set_new(s->item, "tries", json_integer(tries));
    json_object_set_new(s->item, "not_before", json_real(clock_seconds() + pause));
    s->outcome = tries < most ? AGAIN : FAILED;
    snprintf(s->fault, sizeof s->fault,
             "staging %s: the command %.300s (try %lld of %lld); its output is in %s",
             json_text(s->item, "name", ""), how, (long long)tries, (long long)most,
             json_text(s->item, "log", ""));
    log_warn("%s", s->fault);
    return OK;
}

/* The command has ended so; "": with exit code 0. */
static enum status end_fetch(struct stager *s, const char *how, struct err *e)
{
    char took[QUANTITY];
    struct err own = {0};
    if (how[0]) return fail(s, how, e);
    if (!is_whole(s->partial, &own)) {
        err_prefix(&own, "left no whole checkpoint");
        return fail(s, own.text, e);
    }
    quantity_time(clock_seconds() - s->start, took);
    log_info("staged %s in %s", json_text(s->item, "name", ""), took);
    PASS(tree_sync(s->partial, e));
    s->outcome = BROUGHT;
    return claims_flag(s->item, "keep") ? OK : ledger_mark(s->partial, e);
}

static enum status begin_fetch(struct stager *s, struct err *e)
{
    const char *log = json_text(s->item, "log", "");
    s->start = s->moved = clock_seconds();
    NEED(mkdir(s->partial, 0777) == 0 || errno == EEXIST, fsx_errno_status(errno),
         "%s: `stage` cannot make this folder: %s", s->partial, strerror(errno));
    PASS(check_disk(s, claims_number(s->item, "bytes") - tree_bytes(s->partial), e));
    if (!fsx_is_dir(s->path))
        PASS(fetch_start(&s->fetch, json_object_get(s->item, "command"), log, e));
    log_trace("stage", "fetching %s into %s", json_text(s->item, "name", ""), s->partial);
    if (s->fetch.pid == 0) s->outcome = AGAIN; /* another's command still runs, or it is there */
    return OK;
}

static enum status step(struct stager *s, struct err *e)
{
    char how[64];
    const double patience = json_number_get(json_object_get(s->job, "patience")), often = 0.2;
    if (s->fetch.pid > 0 && fetch_ended(&s->fetch, how)) {
        PASS(end_fetch(s, how, e));
        s->next = 0;
    }
    if (clock_seconds() < s->next) return OK;
    s->next = clock_seconds() + often;
    PASS(ledger_update(s->folder, look, s, e));
    if (!s->path) fetch_stop(&s->fetch); /* it goes on when there is more space */
    if (s->path && s->outcome == RUNS && s->fetch.pid == 0) return begin_fetch(s, e);
    if (s->fetch.pid == 0 || clock_seconds() - s->moved < patience) return OK;
    fetch_stop(&s->fetch);
    return fail(s, "brought no byte for too long, and was ended", e);
}

enum status stager_step(struct stager *s, struct err *e)
{
    const enum status st = step(s, e);
    s->begun = st == OK;
    return st;
}

void stager_close(struct stager *s)
{
    struct err e = {0};
    if (!s) return;
    fetch_stop(&s->fetch);
    if (s->outcome == RUNS) s->outcome = AGAIN;
    s->last = true;
    if (s->begun && ledger_update(s->folder, look, s, &e) != OK) log_warn("staging: %s", e.text);
    lock_release(s->held);
    json_decref(s->wanted);
    json_decref(s->job);
    free(s->ended);
    free(s);
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

static bool is_on_disk(const json_t *stage)
{
    const char *path;
    json_t *bytes;
    bool there = true;
    json_object_foreach(json_object_get(stage, "reads"), path, bytes) there =
        there && fsx_is_dir(path);
    return there;
}

struct ask {
    const json_t *stage;
    enum claim claim;
};

static enum status ask(void *context, json_t *state, struct err *e)
{
    struct ask *a = context;
    const char *path;
    json_t *bytes;
    json_object_foreach(json_object_get(a->stage, "reads"), path, bytes)
    {
        const json_t *entry = claims_entry(state, path);
        NEED(!claims_is(entry, "failed"), ERR_IO, "%s", json_text(entry, "message", ""));
    }
    a->claim = claims_ask(state, a->stage, is_on_disk(a->stage), claims_number(a->stage, "space"));
    NEED(a->claim != CLAIM_NEVER, ERR_FULL, "what its visit reads takes more than run.stage_space");
    return OK;
}

enum claim stager_ask(const json_t *stage, bool asks, char message[512])
{
    struct ask a = {stage, CLAIM_LEASED};
    struct err e = {0};
    const char *folder = json_text(stage, "folder", "");
    json_t *state = NULL, *before;
    enum status st = OK;
    message[0] = '\0';
    if (asks && ledger_read(folder, &state, NULL) != OK) return CLAIM_WAITS;
    before = json_deep_copy(state);
    if (asks) st = ask(&a, state, &e);
    /* The lock is taken only where something changes. */
    if (st == OK && !json_equal(before, state)) st = ledger_update(folder, ask, &a, &e);
    json_decref(before);
    json_decref(state);
    snprintf(message, 512, "%s", e.text);
    return st != OK ? CLAIM_NEVER : is_on_disk(stage) ? a.claim : CLAIM_WAITS;
}

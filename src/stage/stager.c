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
#include <errno.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
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
    char fault[600];         /* FAILED: why */
    int64_t bytes, expected; /* that it has brought, that were claimed for it */
    double start, moved;     /* clock_seconds of the command's start, of its last byte */
    bool begun;
    struct stager_counts counts;
};

enum status stager_open(json_t *job, struct stager **out, struct err *e)
{
    AUTO_FREE char *path = NULL;
    json_auto_t *own = job;
    json_t *visits = json_object_get(job, "visits");
    PASS(mem_zero(out, 1, sizeof **out, "the stager", e));
    struct stager *s = *out;
    s->job = json_incref(job);
    s->items = json_object_get(job, "items");
    s->folder = json_text(job, "folder", "");
    s->user = json_text(job, "user", "");
    s->space = json_int(job, "space");
    PASS(mem_zero(&s->ended, (int64_t)json_array_size(visits), sizeof *s->ended, "visits", e));
    PASS(ledger_file(s->folder, s->user, "user", &path, e));
    PASS(fsx_make_parent(path, e));
    return lock_take(path, &(struct lock_options){.create = true}, &s->held, e);
}

/* --- the state and the disk --- */

/* Whether all files of a checkpoint are there, and whole; else e says what is wrong. */
static bool is_whole(const char *folder, struct err *e)
{
    CLEANUP(checkpoint_close_at) struct checkpoint *c = NULL;
    return checkpoint_open(folder, &c, e) == OK;
}

/* A folder has its name. One that no stager has fetched is used if it is a whole checkpoint, and
 * left as it is. */
static enum status note(const struct stager *s, json_t *state, const char *path)
{
    struct err own = {0};
    const bool fetched = ledger_has_fetched(path);
    const char *word = fetched                ? "there"
                       : is_whole(path, &own) ? "own"
                                              : "failed",
               *model = json_text(json_object_get(s->items, path), "model", NULL);
    const int64_t bytes = tree_bytes(path);
    json_t *models = json_object_get(state, "models"),
           *entry = claims_set(state, path, word, fetched ? bytes : 0);
    err_prefix(&own,
               "%s: is there, but not fetched by `stage`, and no whole checkpoint; complete or "
               "remove it, `stage` does neither",
               path);
    if (own.text[0]) json_object_set_new(entry, "message", json_string(own.text));
    if (model && claims_there(entry) && bytes > json_int(models, model))
        json_object_set_new(models, model, json_integer(bytes));
    return OK;
}

/* The state follows the disk, unless a process fetches the checkpoint: folders that were there
 * before or were removed by hand, that got or lost their name just before their process was killed.
 * A fetch that is given up keeps its space while its command still writes. */
static enum status look_at(const struct stager *s, json_t *state, const char *path, struct err *e)
{
    const json_t *entry = claims_entry(state, path);
    AUTO_FREE char *log = NULL, *partial = NULL;
    if (claims_is(entry, "fetching") || (claims_is(entry, "failed") && s->begun) ||
        (claims_is(entry, "there") && ledger_has_fetched(path)) ||
        (claims_is(entry, "own") && fsx_is_dir(path)))
        return OK;
    if (fsx_is_dir(path)) return note(s, state, path);
    PASS(ledger_file(s->folder, path, "log", &log, e));
    PASS(ledger_partial(path, &partial, e));
    if (claims_is(entry, "ending") && fetch_runs(log))
        (void)claims_measure(state, path, tree_bytes(partial), s->space);
    else if (fsx_is_dir(partial))
        claims_set(state, path, "left", tree_bytes(partial));
    else
        json_object_del(json_object_get(state, "checkpoints"), path);
    return OK;
}

/* --- a look at the ledger --- */

/* Enters what is on disk already, and the sizes that are expected. What any visit reads must fit;
 * the error says how much would do. */
static enum status begin(const struct stager *s, json_t *state, struct err *e)
{
    const json_t *at = NULL;
    int64_t most = s->space;
    json_t *visit, *item;
    const char *path;
    size_t i;
    json_object_foreach(s->items, path, item) PASS(look_at(s, state, path, e));
    json_object_update_missing(json_object_get(state, "models"), json_object_get(s->job, "models"));
    json_array_foreach(json_object_get(s->job, "visits"), i, visit) {
        const int64_t bytes = claims_bytes(state, json_object_get(visit, "reads"));
        if (bytes > most) at = visit;
        most = max64(most, bytes);
    }
    NEED(!at, ERR_USAGE,
         "run.stage_space is %lld bytes, but the visit \"%s\" reads %zu checkpoints at once, which "
         "take %lld bytes; so much would do for all visits",
         (long long)s->space, json_text(at, "visit", ""),
         json_object_size(json_object_get(at, "reads")), (long long)most);
    return OK;
}

/* What an earlier process of this user had, and what others had who are gone, is nobody's. */
static enum status bury(const struct stager *s, json_t *state, struct err *e)
{
    json_t *users = json_object_get(state, "users"), *one;
    const char *name, *life = json_text(json_object_get(users, s->user), "life", "");
    NEED(!s->begun || strcmp(life, json_text(s->job, "life", "")) == 0, ERR_IO,
         "%s: this process did not renew its lock and was taken for dead; start again to go on",
         s->folder);
    json_object_foreach(users, name, one) {
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
    json_object_set_new(claims_entry(state, path), "state", json_string("ending"));
    if (fsx_is_dir(path) || s->outcome == AGAIN) return OK; /* look_at goes on */
    if (s->outcome == BROUGHT) {
        const bool fits = claims_measure(state, path, tree_bytes(s->partial), s->space);
        return fits ? fsx_publish(s->partial, path, e) : OK;
    }
    json_object_set_new(claims_set(state, path, "failed", 0), "message", json_string(s->fault));
    return tree_remove(s->partial, e);
}

/* What the visits that have not ended need, in their order; those that have hold no lease. Who only
 * fetches needs nothing, and wants what has not been there yet, and what was removed too early. */
static void register_visits(struct stager *s, json_t *state)
{
    json_t *visit, *item;
    const char *path;
    size_t i;
    json_decref(s->wanted);
    s->wanted = json_object();
    json_array_foreach(json_object_get(s->job, "visits"), i, visit) {
        if (s->ended[i])
            json_object_del(json_object_get(state, "visits"), json_text(visit, "visit", ""));
        else
            json_object_update_missing(s->wanted, json_object_get(visit, "reads"));
    }
    claims_register(state, s->user, json_text(s->job, "life", ""),
                    json_flag(s->job, "uses") ? s->wanted : NULL);
    s->counts = (struct stager_counts){.items = (int64_t)json_object_size(s->items)};
    json_object_foreach(s->items, path, item) {
        const json_t *entry = claims_entry(state, path);
        const bool there = claims_there(entry), failed = claims_is(entry, "failed");
        if (there) json_object_set_new(item, "seen", json_true());
        const bool seen = json_flag(item, "seen"), wanted = !seen || claims_needed(state, path);
        if (!wanted) json_object_del(s->wanted, path);
        s->counts.there += seen;
        s->counts.failed += failed;
        s->counts.left += wanted && !there && !failed;
    }
}

static enum status look(void *context, json_t *state, struct err *e)
{
    struct stager *s = context;
    json_t *one;
    const char *path;
    void *next;
    PASS(bury(s, state, e));
    if (s->path && s->outcome != RUNS) PASS(end_command(s, state, e));
    json_object_foreach_safe(json_object_get(state, "checkpoints"), next, path, one)
        PASS(look_at(s, state, path, e));
    if (!s->begun) PASS(begin(s, state, e));
    s->begun = true;
    register_visits(s, state);
    if (s->path) {
        const int64_t bytes = tree_bytes(s->partial);
        if (bytes != s->bytes) s->moved = clock_seconds();
        s->bytes = bytes;
        if (!claims_measure(state, s->path, bytes, s->space)) s->path = NULL;
    } else if (json_flag(s->job, "commands")) {
        s->path = claims_fetch(state, s->user, s->items, s->wanted, s->space, clock_seconds(),
                               &s->counts.full);
        s->item = json_object_get(s->items, s->path);
        s->partial = json_text(s->item, "partial", "");
        s->expected = json_int(claims_entry(state, s->path), "bytes");
        s->outcome = RUNS;
    }
    claims_tidy(state);
    return OK;
}

/* --- fetching --- */

/* The command has ended so; "": with exit code 0. What it has not brought is tried again after a
 * while; after the last try its cells fail. */
static enum status end_fetch(struct stager *s, const char *how, struct err *e)
{
    const int64_t tries = json_int(s->item, "tries") + 1, most = json_int(s->job, "tries");
    const double pause =
        json_number_get(json_object_get(s->job, "pause")) * ldexp(1, (int)min64(tries - 1, 39));
    const char *name = json_text(s->item, "name", "");
    struct err own = {0};
    if (!how[0] && is_whole(s->partial, &own)) {
        log_info("staged %s in %.1f s", name, clock_seconds() - s->start);
        PASS(tree_sync(s->partial, e));
        s->outcome = BROUGHT;
        return json_flag(s->item, "keep") ? OK : ledger_mark(s->partial, e);
    }
    err_prefix(&own, "left no whole checkpoint");
    json_object_set_new(s->item, "tries", json_integer(tries));
    json_object_set_new(s->item, "not_before", json_real(clock_seconds() + pause));
    s->outcome = tries < most ? AGAIN : FAILED;
    snprintf(s->fault, sizeof s->fault,
             "staging %s: the command %s%.300s (try %lld of %lld); its output is in %s", name, how,
             own.text, (long long)tries, (long long)most, json_text(s->item, "log", ""));
    log_warn("%s", s->fault);
    return OK;
}

enum status stager_step(struct stager *s, struct stager_counts *n, struct err *e)
{
    char how[64];
    const double patience = json_number_get(json_object_get(s->job, "patience"));
    if (s->fetch.pid > 0 && fetch_ended(&s->fetch, how)) PASS(end_fetch(s, how, e));
    PASS(ledger_update(s->folder, look, s, e));
    if (n) *n = s->counts;
    if (!s->path) fetch_stop(&s->fetch); /* it goes on when there is more space */
    if (s->path && s->outcome == RUNS && s->fetch.pid == 0) {
        const int64_t a_little = 1 << 20,
                      bytes = max64(s->expected - tree_bytes(s->partial), a_little);
        struct statvfs disk = {.f_bavail = 0, .f_frsize = 0};
        s->start = s->moved = clock_seconds();
        NEED((mkdir(s->partial, 0777) == 0 || errno == EEXIST) && statvfs(s->partial, &disk) == 0,
             fsx_errno_status(errno), "%s: `stage` cannot make this folder: %s", s->partial,
             strerror(errno));
        const double available = (double)disk.f_bavail * (double)disk.f_frsize;
        NEED(available >= (double)bytes, ERR_FULL,
             "%s: %.1f GB are free on its disk and %.1f GB are to be fetched; make space, or limit "
             "run.stage_space, and start again",
             s->partial, available / 1e9, (double)bytes / 1e9);
        if (!fsx_is_dir(s->path))
            PASS(fetch_start(&s->fetch, json_object_get(s->item, "command"),
                             json_text(s->item, "log", ""), e));
        if (s->fetch.pid == 0)
            s->outcome = AGAIN; /* another's command still runs, or it is there */
        return OK;
    }
    if (s->fetch.pid == 0 || clock_seconds() - s->moved < patience) return OK;
    fetch_stop(&s->fetch);
    return end_fetch(s, "brought no byte for too long, and was ended", e);
}

void stager_close(struct stager *s)
{
    struct err e = {0};
    if (!s) return;
    fetch_stop(&s->fetch);
    if (s->outcome == RUNS) s->outcome = AGAIN;
    json_object_set_new(s->job, "commands", json_false());
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

/* --- those who run visits --- */

static bool is_on_disk(const json_t *stage)
{
    const char *path;
    json_t *bytes;
    bool there = true;
    json_object_foreach(json_object_get(stage, "reads"), path, bytes)
        there = there && fsx_is_dir(path);
    return there;
}

struct ask {
    const json_t *stage;
    enum claim claim;
    char *why;
};

static enum status ask(void *context, json_t *state, struct err *e)
{
    struct ask *a = context;
    (void)e;
    a->claim = claims_ask(state, a->stage, is_on_disk(a->stage), a->why);
    return OK;
}

enum claim stager_ask(const json_t *stage, bool asks, char message[512])
{
    struct ask a = {stage, CLAIM_LEASED, message};
    struct err e = {0};
    const char *folder = json_text(stage, "folder", "");
    json_t *state = NULL, *before;
    message[0] = '\0';
    if (asks && ledger_read(folder, &state, NULL) != OK) return CLAIM_WAITS;
    before = json_deep_copy(state);
    /* The lock is taken only where something changes. */
    if (asks) (void)ask(&a, state, &e);
    if (!json_equal(before, state) && ledger_update(folder, ask, &a, &e) != OK) {
        snprintf(message, 512, "%s", e.text);
        a.claim = CLAIM_NEVER;
    }
    json_decref(before);
    json_decref(state);
    return a.claim == CLAIM_LEASED && !is_on_disk(stage) ? CLAIM_WAITS : a.claim;
}

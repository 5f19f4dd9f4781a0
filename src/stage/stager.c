#include "stage/stager_internal.h"
#include "stage/tree.h"
#include "util/clock.h"
#include "util/fsx.h"
#include "util/log.h"
#include "util/mem.h"
#include "util/quantity.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Seconds between two looks at the ledger while there is something to wait for. */
static const double often = 0.2;

/* --- the job --- */

static enum status read_item(const json_t *json, struct item *out, struct err *e)
{
    const json_t *command = json_object_get(json, "command");
    size_t i;
    json_t *word;
    *out = (struct item){.name = json_text(json, "name", NULL),
                         .model = json_text(json, "model", NULL),
                         .path = json_text(json, "path", NULL),
                         .keep = json_is_true(json_object_get(json, "keep"))};
    NEED(out->name && out->model && out->path && json_array_size(command) > 0, ERR_FORMAT,
         "a checkpoint to stage is malformed");
    PASS(mem_zero(&out->argv, (int64_t)json_array_size(command) + 1, sizeof *out->argv, "arguments",
                  e));
    json_array_foreach(command, i, word) out->argv[i] = (char *)(uintptr_t)json_string_value(word);
    return ledger_beside(out->path, "partial", &out->partial, e);
}

static enum status read_visit(const struct stager *s, const json_t *json, struct need *out,
                              struct err *e)
{
    PASS(mem_zero(&out->items, (int64_t)json_array_size(json), sizeof *out->items, "visits", e));
    for (; out->n < (int64_t)json_array_size(json); out->n++) {
        const int64_t i = (int64_t)json_integer_value(json_array_get(json, (size_t)out->n));
        NEED(i >= 0 && i < s->n_items, ERR_FORMAT, "a visit to stage for is malformed");
        out->items[out->n] = i;
    }
    return OK;
}

static enum status read_job(struct stager *s, struct err *e)
{
    const json_t *items = json_object_get(s->job, "items");
    const json_t *visits = json_object_get(s->job, "visits");
    const int64_t n = (int64_t)json_array_size(items), m = (int64_t)json_array_size(visits);
    s->space = (int64_t)json_integer_value(json_object_get(s->job, "space"));
    s->tries = (int64_t)json_integer_value(json_object_get(s->job, "tries"));
    s->pause = json_number_get(json_object_get(s->job, "pause"));
    s->commands = json_is_true(json_object_get(s->job, "commands"));
    s->uses = json_is_true(json_object_get(s->job, "uses"));
    PASS(mem_zero(&s->items, n, sizeof *s->items, "checkpoints", e));
    for (; s->n_items < n; s->n_items++)
        PASS(read_item(json_array_get(items, (size_t)s->n_items), &s->items[s->n_items], e));
    PASS(mem_zero(&s->visits, m, sizeof *s->visits, "visits", e));
    for (; s->n_visits < m; s->n_visits++)
        PASS(
            read_visit(s, json_array_get(visits, (size_t)s->n_visits), &s->visits[s->n_visits], e));
    return OK;
}

enum status stager_open(const json_t *job, struct stager **out, struct err *e)
{
    enum status st = OK;
    struct stager *s = NULL;
    const char *folder = json_text(job, "folder", NULL), *user = json_text(job, "user", NULL);
    TRY(mem_zero(&s, 1, sizeof *s, "the stager", e));
    s->job = json_deep_copy(job);
    s->active = json_object();
    ENSURE(s->job && s->active && folder && user, ERR_FORMAT, "a job of staging is malformed");
    TRY(read_job(s, e));
    TRY(ledger_open(folder, user, &s->ledger, e));
    *out = s;
    s = NULL;
done:
    stager_close(s);
    return st;
}

void stager_close(struct stager *s)
{
    if (!s) return;
    fetch_stop(&s->fetch);
    ledger_close(&s->ledger);
    for (int64_t i = 0; s->items && i < s->n_items; i++) {
        free(s->items[i].argv);
        free(s->items[i].partial);
    }
    for (int64_t i = 0; s->visits && i < s->n_visits; i++) free(s->visits[i].items);
    free(s->items);
    free(s->visits);
    texts_free(&s->leaving);
    json_decref(s->job);
    json_decref(s->active);
    free(s);
}

/* --- fetching --- */

struct outcome {
    const struct item *item;
    const char *message; /* NULL: it is there */
    int64_t bytes;
};

static enum status note_outcome(void *context, json_t *state, bool *changed, struct err *e)
{
    const struct outcome *o = context;
    json_t *entry = json_object_get(json_object_get(state, "checkpoints"), o->item->path);
    NEED(entry, ERR_IO, "%s: staging has no note of it any more; was its folder removed?",
         o->item->path);
    json_object_set_new(entry, "state", json_string(o->message ? "failed" : "there"));
    json_object_set_new(entry, "bytes", json_integer((json_int_t)o->bytes));
    if (o->message) json_object_set_new(entry, "message", json_string(o->message));
    if (!o->message) stager_note_bytes(state, o->item, o->bytes);
    *changed = true;
    return OK;
}

/* A plan finds the model's shape there when no checkpoint is on disk. */
static enum status keep_shape(const struct stager *s, const struct item *item, struct err *e)
{
    enum status st = OK;
    char *from = NULL, *folder = NULL, *to = NULL, *text = NULL;
    size_t n;
    TRY(mem_format(&from, e, "%s/config.json", item->path));
    TRY(ledger_shape(s->ledger.folder, item->model, &folder, e));
    TRY(mem_format(&to, e, "%s/config.json", folder));
    if (fsx_is_file(to) || !fsx_is_file(from)) goto done;
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

/* Also of checkpoints that were there before. */
static enum status keep_shapes(struct stager *s, struct err *e)
{
    const char *last = "";
    for (int64_t i = 0; i < s->n_items; i++) {
        struct item *item = &s->items[i];
        if (!item->there || item->shaped || strcmp(item->model, last) == 0) continue;
        PASS(keep_shape(s, item, e));
        item->shaped = true;
        last = item->model;
    }
    return OK;
}

static enum status arrive(struct stager *s, struct item *item, struct err *e)
{
    char time[QUANTITY], size[QUANTITY];
    if (rename(item->partial, item->path) != 0) {
        NEED(fsx_is_dir(item->path), fsx_errno_status(errno), "%s: %s", item->path,
             strerror(errno));
        PASS(tree_remove(item->partial, e)); /* somebody else has put it there */
    }
    const struct outcome o = {.item = item, .bytes = tree_bytes(item->path)};
    PASS(keep_shape(s, item, e));
    item->shaped = true;
    PASS(ledger_update(&s->ledger, note_outcome, (void *)(uintptr_t)&o, e));
    quantity_time(clock_seconds() - s->fetch.start, time);
    quantity_prefix((double)o.bytes, size);
    log_info("staged %s: %sB in %s", item->name, size, time);
    return OK;
}

/* After the last try its cells fail, with this message. */
static enum status give_up(struct stager *s, struct item *item, const char *fault, const char *log,
                           struct err *e)
{
    enum status st = OK;
    char *message = NULL;
    TRY(mem_format(&message, e,
                   "%s: could not be staged in %lld tr%s; the last time, the command %s; its "
                   "output is in %s",
                   item->path, (long long)s->tries, s->tries == 1 ? "y" : "ies", fault, log));
    const struct outcome o = {.item = item, .message = message};
    TRY(tree_remove(item->partial, e));
    TRY(ledger_update(&s->ledger, note_outcome, (void *)(uintptr_t)&o, e));
    log_warn("%s", message);
done:
    free(message);
    return st;
}

static enum status end_fetch(struct stager *s, const char *fault, struct err *e)
{
    enum status st = OK;
    struct item *item = &s->items[s->fetching];
    char *config = NULL, *log = NULL;
    s->next = 0;
    TRY(mem_format(&config, e, "%s/config.json", item->partial));
    TRY(ledger_log(s->ledger.folder, item->name, &log, e));
    if (!fault[0] && !fsx_is_file(config)) fault = "left no config.json in its folder";
    if (!fault[0]) {
        TRY(arrive(s, item, e));
        goto done;
    }
    item->tries++;
    if (item->tries >= s->tries) {
        TRY(give_up(s, item, fault, log, e));
        goto done;
    }
    const double pause = s->pause * ldexp(1, (int)(item->tries < 40 ? item->tries : 40) - 1);
    item->not_before = clock_seconds() + pause;
    log_warn("staging %s: the command %s (try %lld of %lld; the next in %.3g s; output: %s)",
             item->name, fault, (long long)item->tries, (long long)s->tries, pause, log);
done:
    free(config);
    free(log);
    return st;
}

static enum status begin_fetch(struct stager *s, int64_t i, struct err *e)
{
    enum status st = OK;
    struct item *item = &s->items[i];
    char *log = NULL;
    TRY(ledger_log(s->ledger.folder, item->name, &log, e));
    TRY(fsx_make_parent(item->partial, e));
    ENSURE(mkdir(item->partial, 0777) == 0 || errno == EEXIST, fsx_errno_status(errno), "%s: %s",
           item->partial, strerror(errno));
    TRY(fetch_start(&s->fetch, item->argv, log, e));
    s->fetching = i;
    if (s->fetch.pid > 0)
        log_trace("stage", "fetching %s into %s", item->name, item->partial);
    else /* the command of an earlier process has not ended yet */
        item->not_before = clock_seconds() + often;
done:
    free(log);
    return st;
}

/* A checkpoint may be larger than those before it. If there is no space for it, its command is
 * ended, and started again when there is; alone on disk and too large, it is given up. */
static enum status measure(struct stager *s, struct err *e)
{
    enum status st = OK;
    char *log = NULL;
    const double now = clock_seconds();
    struct item *item = &s->items[s->fetching];
    if (s->space == 0 || now < s->measured + often) return OK;
    s->measured = now;
    TRY(ledger_update(&s->ledger, stager_measure, s, e));
    if (!s->stalled) goto done;
    fetch_stop(&s->fetch);
    s->next = 0;
    if (s->hopeless) {
        s->stalled = NULL;
        TRY(ledger_log(s->ledger.folder, item->name, &log, e));
        TRY(give_up(s, item,
                    "was ended, because what its visit reads takes more than run.stage_space", log,
                    e));
    } else {
        log_info("staging %s: larger than the checkpoints before it; it goes on when there is "
                 "space",
                 item->name);
    }
done:
    free(log);
    return st;
}

/* Starts the command of the first checkpoint that is claimed and may be tried. */
static enum status fetch_next(struct stager *s, struct err *e)
{
    for (int64_t i = 0; i < s->n_items && s->fetch.pid <= 0; i++)
        if (s->items[i].mine && &s->items[i] != s->stalled &&
            clock_seconds() >= s->items[i].not_before)
            PASS(begin_fetch(s, i, e));
    return OK;
}

/* --- removing --- */

static enum status forget(void *context, json_t *state, bool *changed, struct err *e)
{
    const struct texts *gone = context;
    (void)e;
    for (int64_t i = 0; i < gone->n; i++)
        if (json_object_del(json_object_get(state, "checkpoints"), gone->text[i]) == 0)
            *changed = true;
    return OK;
}

static enum status remove_one(const char *path, struct err *e)
{
    static const char *const what[] = {"removing", "partial"};
    for (int i = 0; i < 2; i++) {
        char *beside;
        PASS(ledger_beside(path, what[i], &beside, e));
        const enum status st = tree_remove(beside, e);
        free(beside);
        PASS(st);
    }
    log_trace("stage", "removed %s", path);
    return OK;
}

static enum status remove_leaving(struct stager *s, struct err *e)
{
    if (s->leaving.n == 0) return OK;
    for (int64_t i = 0; i < s->leaving.n; i++) PASS(remove_one(s->leaving.text[i], e));
    PASS(ledger_update(&s->ledger, forget, &s->leaving, e));
    texts_free(&s->leaving);
    s->leaving = (struct texts){0};
    s->next = 0;
    return OK;
}

/* Lets go of what it fetches without having the space for it any more. */
static enum status drop_unwanted(struct stager *s, struct err *e)
{
    bool any = false;
    for (int64_t i = 0; i < s->n_items; i++) any = any || s->items[i].unwanted;
    if (!any) return OK;
    if (s->fetch.pid > 0 && s->items[s->fetching].unwanted) fetch_stop(&s->fetch);
    s->next = 0;
    return ledger_update(&s->ledger, stager_unclaim, s, e);
}

static void tell_held(struct stager *s)
{
    if (!s->held || s->told) return;
    log_info("staging: run.stage_space is taken by other parts of the sweep; the next visit waits "
             "until they need less");
    s->told = true;
}

/* --- from outside --- */

enum status stager_step(struct stager *s, struct err *e)
{
    char fault[64];
    if (s->fetch.pid > 0 && fetch_ended(&s->fetch, fault))
        PASS(end_fetch(s, fault, e));
    else if (s->fetch.pid > 0)
        PASS(measure(s, e));
    while (clock_seconds() >= s->next) { /* once more after something was removed */
        s->next = clock_seconds() + often;
        PASS(ledger_update(&s->ledger, stager_arrange, s, e));
        s->begun = true;
        tell_held(s);
        PASS(drop_unwanted(s, e));
        PASS(keep_shapes(s, e));
        PASS(remove_leaving(s, e));
    }
    return fetch_next(s, e);
}

void stager_end_visit(struct stager *s, int64_t visit)
{
    if (visit < 0 || visit >= s->n_visits) return;
    s->visits[visit].ended = true;
    s->next = 0;
}

struct stager_counts stager_count(const struct stager *s)
{
    struct stager_counts n = {.items = s->n_items, .all = s->begun, .full = s->full};
    for (int64_t i = 0; i < s->n_items; i++) {
        n.there += s->items[i].seen;
        n.failed += s->items[i].failed;
    }
    for (int64_t i = 0; i < s->n_visits; i++) n.all = n.all && s->visits[i].ended;
    return n;
}

#include "train/run_files.h"
#include "records/lock.h"
#include "train/run_files_internal.h"
#include "util/fsx.h"
#include "util/mem.h"
#include "util/temporary.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

/* --- the end --- */

enum status run_ending_read(const struct run *r, struct run_ending *out, struct err *e)
{
    enum status st = OK;
    AUTO_FREE char *path = NULL;
    json_auto_t *json = NULL;
    struct err why = {0};
    *out = (struct run_ending){.end = RUN_OPEN};
    PASS(run_path(r, &path, e, "end.json"));
    if (!fsx_is_file(path)) return st;
    st = json_read_file(path, 1 << 16, &json, &why);
    const bool done = strcmp(json_text(json, "status", ""), "done") == 0;
    NEED(st == OK || st == ERR_FORMAT, st, "%s", why.text);
    NEED(done || strcmp(json_text(json, "status", ""), "diverged") == 0, ERR_FORMAT,
         "%s: expected how the run has ended; remove it to train the run again%s%s", path,
         st == OK ? "" : ": ", st == OK ? "" : why.text);
    out->end = done ? RUN_DONE : RUN_DIVERGED;
    out->step = json_int(json, "step");
    snprintf(out->message, sizeof out->message, "%s", json_text(json, "message", ""));
    return st;
}

static enum status write_json(const struct run *r, const char *name, const json_t *json,
                              struct err *e)
{
    AUTO_FREE char *path = NULL;
    PASS(run_path(r, &path, e, "%s", name));
    return json_write_file(path, json, JSON_INDENT(2), e);
}

enum status run_files_end(struct run_files *f, const struct run_ending *end, struct err *e)
{
    PASS(run_files_sync(f, e));
    json_auto_t *json =
        json_pack("{s:s, s:I, s:s}", "status", end->end == RUN_DONE ? "done" : "diverged", "step",
                  (json_int_t)end->step, "message", end->message);
    return write_json(f->run, "end.json", json, e);
}

/* --- settings --- */

/* The first key in which they differ, "" if none. */
static bool differ(const json_t *a, const json_t *b, char *key, size_t size)
{
    const char *name;
    json_t *one;
    if (json_equal(a, b)) return false;
    if (!json_is_object(a) || !json_is_object(b)) return true;
    const size_t n = strlen(key);
    json_object_foreach((json_t *)(uintptr_t)a, name, one) {
        if (json_equal(one, json_object_get(b, name))) continue;
        snprintf(key + n, size - n, "%s%s", n ? "." : "", name);
        return differ(one, json_object_get(b, name), key, size);
    }
    return true; /* b has more */
}

/* text = ": 24 -> 12", the values under a key of two objects; "": one has none, or an object. */
static void say_values(const json_t *was, const json_t *now, const char *key, char *text,
                       size_t size)
{
    char part[64];
    text[0] = '\0';
    for (size_t n; *key; key += n + (key[n] == '.')) {
        n = strcspn(key, ".");
        snprintf(part, sizeof part, "%.*s", (int)n, key);
        was = json_object_get(was, part);
        now = json_object_get(now, part);
    }
    if (!was || !now || json_is_object(was) || json_is_object(now)) return;
    const int how = JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(6);
    char *from = json_dumps(was, how), *to = json_dumps(now, how);
    if (from && to) snprintf(text, size, ": %.60s -> %.60s", from, to);
    free(from);
    free(to);
}

/* What the file of runs calls a key of run.json. */
static const char *key_of_recipe(const char *key)
{
    if (!key[0]) return "set of settings";
    if (strcmp(key, "last") == 0) return "number of steps";
    if (strcmp(key, "data") == 0) return "text, field, separator or tokenizer";
    return strcmp(key, "first") == 0 ? "step to begin from" : key;
}

/* text = ", or ...": what a run with another number of steps can do besides beginning anew. */
static enum status say_longer(const struct run *r, char *text, size_t size, struct err *e)
{
    int64_t latest;
    PASS(run_state_latest(r, &latest, e));
    if (latest > 0)
        snprintf(text, size,
                 ", or keep it and let a branch go on from a step whose state is in %s/state: "
                 "branches: [{name: longer, from: %lld, steps: ..., schedule: ...}]",
                 r->name, (long long)latest);
    else
        snprintf(text, size,
                 "; no state of it was kept, so that a longer run trains all steps again "
                 "(checkpoints.states keeps states, from which branches go on)");
    return OK;
}

enum status run_settings_read(const char *path, json_t **out, struct err *e)
{
    PASS(json_read_file(path, 1 << 20, out, e));
    json_object_del(*out, "then"); /* earlier versions kept it */
    return OK;
}

enum status run_settings_check(const struct run *r, const json_t *settings, bool *there,
                               struct err *e)
{
    AUTO_FREE char *path = NULL;
    char key[200] = "", values[140] = "", longer[600] = "";
    json_auto_t *before = NULL;
    PASS(run_path(r, &path, e, "run.json"));
    *there = fsx_is_file(path);
    if (!*there) return OK;
    PASS(run_settings_read(path, &before, e));
    const bool other = differ(settings, before, key, sizeof key);
    if (strcmp(key, "data") != 0) say_values(before, settings, key, values, sizeof values);
    if (strcmp(key, "last") == 0) PASS(say_longer(r, longer, sizeof longer, e));
    NEED(!other, ERR_USAGE,
         "begun with another %s (run.json%s); remove the run's folder in %s to begin it anew, or "
         "give the runs another output%s",
         key_of_recipe(key), values, r->recipe->output, longer);
    return OK;
}

enum status run_has_type(const struct run *r, bool *out, struct err *e)
{
    AUTO_FREE char *path = NULL;
    CLEANUP(fsx_closedir) DIR *dir = NULL;
    *out = true;
    PASS(run_path(r, &path, e, "%s", ""));
    dir = opendir(path);
    for (struct dirent *d; dir && *out && (d = readdir(dir)) != NULL;) {
        json_t *config = NULL;
        if (strncmp(d->d_name, "step", 4) != 0 || strcmp(d->d_name, "step000000") == 0) continue;
        free(path);
        PASS(run_path(r, &path, e, "%s/config.json", d->d_name));
        if (json_read_file(path, 1 << 20, &config, NULL) == OK)
            *out = strcmp(json_text(config, "torch_dtype", ""), run_type(r)) == 0;
        json_decref(config);
    }
    return OK;
}

/* --- the folder --- */

/* Files and folders that a killed process had not finished: only the holder of the lock makes any,
 * but for the lock's own. */
static enum status remove_unfinished(const struct run *r, const char *within, struct err *e)
{
    AUTO_FREE char *folder = NULL, *path = NULL;
    CLEANUP(fsx_closedir) DIR *dir = NULL;
    PASS(run_path(r, &folder, e, "%s", within));
    dir = opendir(folder);
    for (struct dirent *d; dir && (d = readdir(dir)) != NULL;) {
        if (!strstr(d->d_name, ".tmp.") ||
            strncmp(d->d_name, STEPS_TABLE, strlen(STEPS_TABLE)) == 0)
            continue;
        free(path);
        PASS(fsx_join(folder, d->d_name, &path, e));
        temporary_remove(path);
    }
    return OK;
}

enum status run_files_open(const struct run *r, const json_t *settings, struct run_files **out,
                           struct err *e)
{
    CLEANUP(run_files_close_at) struct run_files *f = NULL;
    AUTO_FREE char *state = NULL;
    bool there;
    PASS(mem_zero(&f, 1, sizeof *f, "a run", e));
    *f = (struct run_files){.run = r, .fd = -1};
    PASS(run_path(r, &f->steps, e, STEPS_TABLE));
    PASS(run_state_path(r, 0, &state, e));
    PASS(fsx_make_parent(state, e));
    PASS(lock_take(f->steps, &(struct lock_options){.create = true}, &f->lock, e));
    PASS(run_settings_check(r, settings, &there, e));
    if (!there) PASS(write_json(r, "run.json", settings, e));
    PASS(remove_unfinished(r, "", e));
    PASS(remove_unfinished(r, "state", e));
    f->fd = fsx_open_as(f->steps, O_RDWR | O_APPEND | O_CREAT);
    NEED(f->fd >= 0, fsx_errno_status(errno), "%s: %s", f->steps, strerror(errno));
    *out = TAKE(f);
    return OK;
}

void run_files_close(struct run_files *f)
{
    if (!f) return;
    if (f->fd >= 0) close(f->fd);
    lock_release(f->lock);
    free(f->steps);
    free(f->trajectory);
    free(f);
}

enum status run_files_sync(struct run_files *f, struct err *e)
{
    PASS(lock_check(f->lock, e));
    NEED(fsx_sync(f->fd, FSX_DATA), fsx_errno_status(errno), "%s: %s", f->steps, strerror(errno));
    return OK;
}

/* --- states --- */

enum status run_state_path(const struct run *r, int64_t step, char **out, struct err *e)
{
    return run_path(r, out, e, "state/step%06lld.safetensors", (long long)step);
}

/* Calls see for every state; it may remove it. */
static enum status each_state(const struct run *r,
                              void (*see)(void *context, int64_t step, const char *path),
                              void *context, struct err *e)
{
    AUTO_FREE char *folder = NULL, *path = NULL;
    CLEANUP(fsx_closedir) DIR *dir = NULL;
    PASS(run_path(r, &folder, e, "state"));
    dir = opendir(folder);
    for (struct dirent *d; dir && (d = readdir(dir)) != NULL;) {
        long long step;
        int end = 0;
        if (sscanf(d->d_name, "step%lld.safetensors%n", &step, &end) != 1 || end == 0 ||
            d->d_name[end])
            continue;
        free(path);
        PASS(fsx_join(folder, d->d_name, &path, e));
        see(context, step, path);
    }
    return OK;
}

static void see_latest(void *context, int64_t step, const char *path)
{
    int64_t *latest = context;
    (void)path;
    if (step > *latest) *latest = step;
}

enum status run_state_latest(const struct run *r, int64_t *step, struct err *e)
{
    *step = -1;
    return each_state(r, see_latest, step, e);
}

struct needs {
    const struct runs *all;
    int64_t run, latest, others; /* others: states that are not needed */
    bool ended, remove;
    enum status st;
    struct err *e;
};

/* Whether the run goes on from the state, keeps it for branches to come, or has a branch that
 * begins there and has no state of its own; one with a damaged end may have to begin again. */
static bool is_needed(struct needs *n, int64_t step)
{
    struct run_ending end;
    int64_t own;
    const struct run *r = &n->all->runs[n->run];
    if (!n->ended && step == n->latest) return true;
    if (step < r->others || (n->ended && step == r->others)) return true;
    if (r->recipe->checkpoints.states && run_has_checkpoint(r, step)) return true;
    for (int64_t i = n->run + 1; n->st == OK && i < n->all->n; i++) {
        const struct run *b = &n->all->runs[i];
        if (b->parent != n->run || b->first != step) continue;
        n->st = run_state_latest(b, &own, n->e);
        const bool readable = run_ending_read(b, &end, NULL) == OK;
        if (n->st == OK && (!readable || end.end == RUN_OPEN) && own < 0) return true;
    }
    return n->st != OK;
}

static void see_needed(void *context, int64_t step, const char *path)
{
    struct needs *n = context;
    if (is_needed(n, step)) return;
    n->others++;
    if (n->remove) unlink(path);
}

enum status run_states_tidy(const struct runs *all, int64_t run, int64_t *others, struct err *e)
{
    struct needs n = {.all = all, .run = run, .remove = !others, .e = e};
    struct run_ending end;
    const struct run *r = &all->runs[run];
    PASS(run_ending_read(r, &end, e));
    n.ended = end.end != RUN_OPEN;
    PASS(run_state_latest(r, &n.latest, e));
    PASS(each_state(r, see_needed, &n, e));
    if (others) *others = n.others;
    return n.st;
}

enum status run_start_path(const struct runs *all, const struct run *r, char **out, struct err *e)
{
    while (r->parent >= 0) r = &all->runs[r->parent];
    return run_path(r, out, e, "step000000");
}

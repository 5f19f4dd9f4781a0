#include "stage/ledger.h"
#include "results/lock.h"
#include "util/clock.h"
#include "util/fsx.h"
#include "util/mem.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* --- names --- */

enum status ledger_folder(const char *results, char **out, struct err *e)
{
    return mem_format(out, e, "%s.stage", results);
}

/* *out = FOLDER/NAME TAIL with blanks and slashes of NAME as underscores. */
static enum status flat(const char *folder, const char *name, const char *tail, char **out,
                        struct err *e)
{
    PASS(mem_format(out, e, "%s/%s%s", folder, name, tail));
    char *p = *out + strlen(folder) + 1, *end = p + strlen(name);
    for (; p < end; p++)
        if (*p == '/' || *p == ' ') *p = '_';
    return OK;
}

enum status ledger_shape(const char *folder, const char *model, char **out, struct err *e)
{
    return flat(folder, model, ".shape", out, e);
}

enum status ledger_log(const char *folder, const char *name, char **out, struct err *e)
{
    return flat(folder, name, ".log", out, e);
}

enum status ledger_beside(const char *path, const char *what, char **out, struct err *e)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    return mem_format(out, e, "%.*s.%s.%s", (int)(name - path), path, name, what);
}

enum status ledger_path(const char *path, char **out, struct err *e)
{
    enum status st = OK;
    char *start = NULL, *found = NULL;
    TRY(mem_format(&start, e, "%s%s", path[0] == '/' ? "" : "./", path));
    int64_t n = (int64_t)strlen(start);
    while (n > 0 && !found) { /* the longest part of it that exists */
        char kept = start[n];
        start[n] = '\0';
        found = realpath(start, NULL);
        start[n] = kept;
        if (found) break;
        for (n--; n > 0 && start[n] != '/'; n--) continue;
    }
    TRY(mem_format(out, e, "%s%s", found ? found : "", found ? start + n : start));
done:
    free(start);
    free(found);
    return st;
}

/* --- users --- */

enum status ledger_open(const char *folder, const char *user, struct ledger *out, struct err *e)
{
    enum status st = OK;
    char *path = NULL;
    const struct lock_options make = {.create = true};
    *out = (struct ledger){0};
    TRY(mem_string(&out->folder, folder, e));
    TRY(mem_string(&out->user, user, e));
    TRY(flat(folder, user, ".user", &path, e));
    TRY(fsx_make_parent(path, e));
    TRY(lock_take(path, &make, &out->held, e));
done:
    free(path);
    return st;
}

void ledger_close(struct ledger *l)
{
    lock_release(l->held);
    free(l->folder);
    free(l->user);
    *l = (struct ledger){0};
}

bool ledger_active(const struct ledger *l, const char *user)
{
    char *path;
    if (strcmp(user, l->user) == 0) return true;
    if (flat(l->folder, user, ".user", &path, NULL) != OK) return true;
    const bool held = lock_look(path).held;
    free(path);
    return held;
}

/* --- the state --- */

enum status ledger_read(const char *folder, json_t **out, struct err *e)
{
    enum status st = OK;
    static const char *const members[] = {"models", "checkpoints", "users"};
    char *path = NULL;
    *out = NULL;
    TRY(mem_format(&path, e, "%s/state.json", folder));
    if (fsx_is_file(path)) TRY(json_read_file(path, 0, out, e));
    if (!*out) *out = json_object();
    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        if (!json_is_object(json_object_get(*out, members[i])))
            json_object_set_new(*out, members[i], json_object());
    ENSURE(json_object_size(*out) >= sizeof members / sizeof *members, ERR_NOMEM,
           "out of memory for %s", path);
done:
    free(path);
    return st;
}

static enum status write(const struct ledger *l, const json_t *state, struct err *e)
{
    enum status st = OK;
    char *path = NULL, *text = json_dump_whole(state, JSON_INDENT(1) | JSON_SORT_KEYS);
    ENSURE(text, ERR_NOMEM, "out of memory for the state of staging");
    TRY(mem_format(&path, e, "%s/state.json", l->folder));
    TRY(fsx_write_atomic(path, text, strlen(text), e));
done:
    free(text);
    free(path);
    return st;
}

/* Others hold it for some milliseconds. */
static enum status wait_for_lock(const char *path, struct lock **out, struct err *e)
{
    const double patience = 600, end = clock_seconds() + patience;
    const struct timespec pause = {.tv_nsec = 20000000};
    const struct lock_options make = {.create = true};
    for (;;) {
        struct err own = {0};
        const enum status st = lock_take(path, &make, out, &own);
        if (st == OK) return OK;
        NEED(st == ERR_LOCKED && clock_seconds() < end, st == ERR_LOCKED ? ERR_IO : st, "%s",
             own.text);
        nanosleep(&pause, NULL);
    }
}

enum status ledger_update(const struct ledger *l, ledger_change *change, void *context,
                          struct err *e)
{
    enum status st = OK;
    char *path = NULL;
    struct lock *lock = NULL;
    json_t *state = NULL;
    bool changed = false;
    TRY(mem_format(&path, e, "%s/ledger", l->folder));
    TRY(wait_for_lock(path, &lock, e));
    TRY(ledger_read(l->folder, &state, e));
    TRY(change(context, state, &changed, e));
    if (changed) TRY(lock_check(lock, e));
    if (changed) TRY(write(l, state, e));
done:
    json_decref(state);
    lock_release(lock);
    free(path);
    return st;
}

int64_t ledger_model_bytes(const json_t *state, const char *model)
{
    const json_t *one = json_object_get(json_object_get(state, "models"), model);
    const json_t *bytes = json_object_get(one, "bytes");
    return json_is_integer(bytes) ? (int64_t)json_integer_value(bytes) : -1;
}

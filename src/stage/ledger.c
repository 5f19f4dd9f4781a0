#include "stage/ledger.h"
#include "records/lock.h"
#include "stage/claims.h"
#include "stage/tree.h"
#include "util/clock.h"
#include "util/fsx.h"
#include "util/hash.h"
#include "util/log.h"
#include "util/mem.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>

/* --- names --- */

enum status ledger_file(const char *folder, const char *name, const char *kind, char **out,
                        struct err *e)
{
    char digest[HASH_HEX];
    hash_text(name, digest);
    return mem_format(out, e, "%s/%s-%.150s.%s", folder, digest, basename(name), kind);
}

enum status ledger_partial(const char *path, char **out, struct err *e)
{
    const char *name = basename(path);
    return mem_format(out, e, "%.*s.%s.partial", (int)(name - path), path, name);
}

enum status ledger_path(const char *path, char **out, struct err *e)
{
    AUTO_FREE char *folder = NULL, *real = NULL;
    PASS(fsx_make_parent(path, e));
    PASS(fsx_parent(path, &folder, e));
    real = realpath(folder, NULL);
    NEED(real, fsx_errno_status(errno), "%s: %s", folder, strerror(errno));
    return mem_format(out, e, "%s/%s", real, basename(path));
}

static const char marker[] = ".staged-by-qtraj";

bool ledger_has_fetched(const char *path)
{
    return fsx_has("%s/%s", path, marker);
}

enum status ledger_mark(const char *path, struct err *e)
{
    static const char text[] = "fetched by `stage` of a sweep, which removes it after its use\n";
    AUTO_FREE char *file = NULL;
    PASS(mem_format(&file, e, "%s/%s", path, marker));
    return fsx_write_atomic(file, text, sizeof text - 1, e);
}

/* --- the state --- */

enum status ledger_read(const char *folder, json_t **out, struct err *e)
{
    AUTO_FREE char *path = NULL;
    *out = NULL;
    PASS(mem_format(&path, e, "%s/state.json", folder));
    if (fsx_is_file(path)) PASS(json_read_file(path, 0, out, e));
    if (!json_is_object(json_object_get(*out, "visits"))) { /* none, or of an earlier version */
        json_decref(*out);
        *out = json_pack("{s:{}, s:{}, s:{}, s:{}}", "models", "checkpoints", "users", "visits");
    }
    NEED(*out, ERR_NOMEM, "out of memory for %s", path);
    return OK;
}

/* Removes what is "removing", unless another process has taken the lock over. */
static enum status remove_all(json_t *state, struct lock *lock, struct err *e)
{
    json_t *all = json_object_get(state, "checkpoints"), *entry;
    AUTO_FREE char *partial = NULL;
    const char *path;
    void *next;
    json_object_foreach_safe(all, next, path, entry) {
        if (!claims_is(entry, "removing")) continue;
        free(partial);
        PASS(ledger_partial(path, &partial, e));
        PASS(lock_check(lock, e));
        PASS(tree_remove(partial, e));
        NEED(!ledger_has_fetched(path) || rename(path, partial) == 0, fsx_errno_status(errno),
             "%s: cannot be removed: %s", path, strerror(errno));
        PASS(tree_remove(partial, e));
        log_trace("stage", "removed %s", path);
        json_object_del(all, path);
    }
    return OK;
}

enum status ledger_update(const char *folder, ledger_change *change, void *context, struct err *e)
{
    enum status st;
    AUTO_FREE char *path = NULL, *guard = NULL;
    CLEANUP(lock_release_at) struct lock *lock = NULL;
    json_auto_t *state = NULL, *before = NULL;
    const double patience = 600, end = clock_seconds() + patience;
    PASS(mem_format(&guard, e, "%s/ledger", folder));
    PASS(mem_format(&path, e, "%s/state.json", folder));
    while ((st = lock_take(guard, &(struct lock_options){.create = true}, &lock, e)) ==
               ERR_LOCKED &&
           clock_seconds() < end) {
        clock_sleep(0.02); /* others hold it for a moment */
        err_clear(e);
    }
    PASS(st == ERR_LOCKED ? ERR_IO : st);
    PASS(ledger_read(folder, &state, e));
    before = json_deep_copy(state);
    PASS(change(context, state, e));
    PASS(remove_all(state, lock, e));
    if (before && json_equal(before, state)) return OK;
    PASS(json_whole(e));
    PASS(lock_check(lock, e));
    return json_write_file(path, state, JSON_INDENT(1), e); /* sets are in an order */
}

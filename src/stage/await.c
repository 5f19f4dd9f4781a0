#include "stage/await.h"
#include "stage/ledger.h"
#include "util/fsx.h"
#include <stdio.h>
#include <string.h>

static bool find_failure(const json_t *state, const char *path, char message[512])
{
    const json_t *entry = json_object_get(json_object_get(state, "checkpoints"), path);
    if (strcmp(json_text(entry, "state", ""), "failed") != 0) return false;
    snprintf(message, 512, "%s", json_text(entry, "message", "could not be staged"));
    return true;
}

/* Whether what the visit reads cannot be removed by others while it is read. */
static bool is_ready(const json_t *stage, const json_t *state)
{
    const json_t *users = json_object_get(state, "users"),
                 *number = json_object_get(stage, "visit");
    const json_t *user = json_object_get(users, json_text(stage, "user", ""));
    json_t *one;
    size_t i;
    json_array_foreach(json_object_get(user, "ready"), i,
                       one) if (json_equal(one, number)) return true;
    return false;
}

enum await_state await_look(const json_t *stage, char message[512])
{
    const json_t *paths = json_object_get(stage, "paths");
    enum await_state found = AWAIT_THERE;
    json_t *path, *state = NULL;
    size_t i;
    json_array_foreach(paths, i, path)
    {
        const char *folder = json_string_value(path);
        if (fsx_is_dir(folder)) continue;
        if (!state && ledger_read(json_text(stage, "folder", ""), &state, NULL) != OK)
            return AWAIT_WAITS;
        if (found == AWAIT_THERE) found = AWAIT_WAITS;
        if (find_failure(state, folder, message)) found = AWAIT_FAILED;
    }
    if (found == AWAIT_THERE && json_object_get(stage, "user")) {
        const bool read = state || ledger_read(json_text(stage, "folder", ""), &state, NULL) == OK;
        if (!read || !is_ready(stage, state)) found = AWAIT_WAITS;
    }
    json_decref(state);
    return found;
}

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
    json_decref(state);
    return found;
}

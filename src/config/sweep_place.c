/* Where the paths of a sweep are named: the key of the file that a message is of, and results whose
 * name --set has perhaps mistyped. */
#include "config/sweep.h"
#include "util/fsx.h"
#include "util/mem.h"
#include <stdio.h>

/* Bytes of the path (up to a place-holder, or a file's key) that the message names; 0: none. */
static size_t named(const char *message, const char *path)
{
    const char *colon = strrchr(path, ':');
    size_t n = strcspn(path, "{*");
    if (colon && !strchr(colon, '/') && path[n] == '\0') n = (size_t)(colon - path);
    for (const char *at = message; n && (at = memmem(at, strlen(at), path, n)); at++)
        if ((at == message || at[-1] == ' ') && (path[n] == '{' || strchr(":/ ", at[n]))) return n;
    return 0;
}

void sweep_add_place(const struct sweep *s, char *message, size_t size, size_t most,
                     const char *remedy)
{
    const char *path, *found = NULL;
    json_t *place;
    size_t longest = 0, n = strlen(message);
    json_object_foreach(s->paths, path, place) {
        const size_t length = named(message, path);
        if (length <= longest) continue;
        longest = length;
        found = json_string_value(place);
    }
    if (!found) return;
    if (n > most) n = most;
    snprintf(message + n, size - n, " (%s)%s", found, remedy);
}

enum status sweep_find_lacks(struct sweep *s, const char *folder, const char *const *overrides,
                             int64_t n, struct err *e)
{
    AUTO_FREE char *parent = NULL, *above = NULL;
    bool named = false;
    for (int64_t i = 0; i < n; i++) named = named || strncmp(overrides[i], "results=", 8) == 0;
    if (!named) return OK;
    PASS(fsx_parent(s->results, &parent, e));
    PASS(fsx_parent(parent, &above, e));
    if (fsx_is_dir(parent) || fsx_same(above, folder) || fsx_same(above, ".")) return OK;
    s->lacks = TAKE(parent);
    return OK;
}

enum status sweep_check_results(const struct sweep *s, struct err *e)
{
    NEED(!s->lacks, ERR_USAGE, "results: folder %s does not exist; name another file, or make it",
         s->lacks);
    return OK;
}

void sweep_free(struct sweep *s)
{
    json_decref(s->paths);
    mem_drop(&s->lacks);
    options_free(&sweep_table, s);
}

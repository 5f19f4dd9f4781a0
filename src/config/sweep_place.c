/* Which key of the sweep file names the path that a message is of. */
#include "config/sweep.h"
#include <stdio.h>
#include <string.h>

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
    json_object_foreach(s->paths, path, place)
    {
        const size_t length = named(message, path);
        if (length <= longest) continue;
        longest = length;
        found = json_string_value(place);
    }
    if (!found) return;
    if (n > most) n = most;
    snprintf(message + n, size - n, " (%s)%s", found, remedy);
}

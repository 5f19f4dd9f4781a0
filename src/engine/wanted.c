#include "engine/wanted.h"
#include "util/mem.h"
#include <stdio.h>

bool wanted_next(const char **at, struct wanted *out)
{
    if (!*at || sscanf(*at, "%31s %63s %32s", out->measure, out->label, out->key) != 3)
        return false;
    *at += strcspn(*at, "\n");
    *at += **at == '\n';
    return true;
}

enum status wanted_add(char **lines, const char *measure, const char *label, const char *key,
                       struct err *e)
{
    return mem_append(lines, e, "%s%s %s %s", *lines ? "\n" : "", measure, label, key);
}

void wanted_drop(char **lines, bool (*is_done)(const void *context, const char *key),
                 const void *context)
{
    const char *at = *lines;
    char *to = *lines;
    struct wanted one;
    for (const char *line = at; wanted_next(&at, &one); line = at) {
        const size_t n = (size_t)(at - line);
        if (is_done(context, one.key)) continue;
        memmove(to, line, n);
        to += n;
    }
    if (!*lines) return;
    if (to > *lines && to[-1] == '\n') to--; /* the last line was dropped */
    *to = '\0';
    if (to > *lines) return;
    free(*lines);
    *lines = NULL;
}

bool wanted_has(const char *lines, const char *key)
{
    struct wanted one;
    bool has = false;
    while (wanted_next(&lines, &one)) has = has || strcmp(one.key, key) == 0;
    return has;
}

int64_t wanted_count(const char *lines, const char *measure, char key[HASH_HEX])
{
    struct wanted one;
    int64_t n = 0;
    while (wanted_next(&lines, &one)) {
        if (strcmp(one.measure, measure) != 0) continue;
        if (key) memcpy(key, one.key, HASH_HEX);
        n++;
    }
    return n;
}

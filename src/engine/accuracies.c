#include "engine/accuracies.h"
#include "util/mem.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool accuracies_next(const char **at, struct accuracy_wanted *out)
{
    if (!*at || sscanf(*at, "%63s %32s", out->task, out->key) != 2) return false;
    *at += strcspn(*at, "\n");
    *at += **at == '\n';
    return true;
}

enum status accuracies_add(char **lines, const char *task, const char *key, struct err *e)
{
    char *longer;
    PASS(mem_format(&longer, e, "%s%s%s %s", *lines ? *lines : "", *lines ? "\n" : "", task, key));
    free(*lines);
    *lines = longer;
    return OK;
}

void accuracies_drop(char **lines, bool (*is_done)(const void *context, const char *key),
                     const void *context)
{
    const char *at = *lines;
    char *to = *lines;
    struct accuracy_wanted one;
    for (const char *line = at; accuracies_next(&at, &one); line = at) {
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

int64_t accuracies_count(const char *lines)
{
    struct accuracy_wanted one;
    int64_t n = 0;
    while (accuracies_next(&lines, &one)) n++;
    return n;
}

bool accuracies_find(const char *lines, const char *name, char key[HASH_HEX])
{
    struct accuracy_wanted one;
    while (accuracies_next(&lines, &one)) {
        if (strcmp(one.task, name) != 0) continue;
        if (key) memcpy(key, one.key, HASH_HEX);
        return true;
    }
    return false;
}

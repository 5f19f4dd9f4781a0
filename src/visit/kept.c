#include "visit/visit_internal.h"
#include <string.h>

void kept_add(struct kept **list, struct kept *k)
{
    k->next = *list;
    *list = k;
}

void *kept_find(struct kept **list, const char *key)
{
    for (struct kept **at = list; *at; at = &(*at)->next) {
        struct kept *k = *at;
        if (strcmp(k->key, key) != 0) continue;
        *at = k->next;
        kept_add(list, k);
        return k;
    }
    return NULL;
}

void kept_forget(struct kept **list, int64_t n, void (*drop)(void *kept))
{
    for (; *list && n > 0; n--) list = &(*list)->next;
    while (*list) {
        struct kept *k = *list;
        *list = k->next;
        drop(k);
    }
}

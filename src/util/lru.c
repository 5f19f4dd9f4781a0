#include "util/lru.h"
#include <string.h>

void lru_add(struct lru **list, struct lru *k)
{
    k->next = *list;
    *list = k;
}

void *lru_find(struct lru **list, const char *key)
{
    for (struct lru **at = list; *at; at = &(*at)->next) {
        struct lru *k = *at;
        if (strcmp(k->key, key) != 0) continue;
        *at = k->next;
        lru_add(list, k);
        return k;
    }
    return NULL;
}

void lru_trim(struct lru **list, int64_t n)
{
    for (; *list && n > 0; n--) list = &(*list)->next;
    while (*list) {
        struct lru *k = *list;
        *list = k->next;
        k->drop(k);
    }
}

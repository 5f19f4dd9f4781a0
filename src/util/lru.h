/* lru: a list of cached items with keys, the most recently used first. Local. */
#pragma once
#include <stdint.h>

/* First member of each item's struct. The item's owner frees the key. An empty list is NULL. */
struct lru {
    struct lru *next; /* used less recently */
    char *key;
    void (*drop)(void *item); /* frees it */
};
/* Inserts l at the front. */
void lru_add(struct lru **list, struct lru *l);
/* Returns the item with this key and moves it to the front; NULL if there is none. */
void *lru_find(struct lru **list, const char *key);
/* Retains the n most recently used items and drops the others. */
void lru_trim(struct lru **list, int64_t n);

/* lru: a list of things with keys that are kept between visits, the most recently used first. */
#pragma once
#include <stdint.h>

/* First member of each thing on a list; its owner frees the key. An empty list is NULL. */
struct lru {
    struct lru *next; /* used less recently */
    char *key;
};
/* Puts l in front. */
void lru_add(struct lru **list, struct lru *l);
/* The thing of that key, moved to the front; NULL: there is none. */
void *lru_find(struct lru **list, const char *key);
/* Keeps the n most recently used and drops the others. */
void lru_trim(struct lru **list, int64_t n, void (*drop)(void *item));

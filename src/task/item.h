/* item: one question of a task, its choices and the right one. */
#pragma once
#include "task/pytext.h"

/* One question and its choices. Zero-initialise. */
struct choice {
    struct buf context; /* asked before it, if item.apart */
    struct buf text;    /* without the blank before it */
};
struct item {
    struct buf context; /* asked before every choice, unless apart */
    bool apart;         /* each choice has a context of its own */
    int64_t n, capacity;
    struct choice *choice; // (n)
    int64_t gold;          /* the right choice; GOLD_NONE: none is, and any answer is wrong */
};
enum { GOLD_NONE = -1 };
void item_free(struct item *i);

/* Appends a choice; *out (borrowed until the next call) = it. ERR_NOMEM. */
MUST_USE enum status item_choice(struct item *i, struct choice **out, struct err *e);

/* The context of choice c. */
const struct buf *item_context(const struct item *i, int64_t c);

/* item: one question of a task, its choices and the right one. */
#pragma once
#include "task/pytext.h"
#include "util/json.h"

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

/* --- from the row of a task's data (field.h) --- */

/* Appends a choice with that text; with that of the field; one for each text of the field's list.
 * ERR_FORMAT, ERR_NOMEM. */
MUST_USE enum status item_add(struct item *out, struct text t, struct err *e);
MUST_USE enum status item_add_field(const json_t *row, const char *name, struct item *out,
                                    struct err *e);
MUST_USE enum status item_add_list(const json_t *row, const char *name, struct item *out,
                                   struct err *e);
/* The context is the question (field_format) with the answers of the list after their letters, of
 * which the last is `last`; the choices are the letters. ERR_FORMAT, ERR_NOMEM. */
MUST_USE enum status item_add_lettered(const json_t *row, const char *question, const char *list,
                                       char last, struct item *out, struct err *e);
/* The right choice, after all choices are there: the one in that place, if there is one; by a field
 * that the harness takes as it is, where an integer is the place of a choice, a string a choice's
 * text; by the place of the answer's label in "choices.label". ERR_FORMAT. */
void item_set_gold(struct item *out, int64_t gold);
MUST_USE enum status item_gold_of_field(const json_t *row, const char *name, struct item *out,
                                        struct err *e);
MUST_USE enum status item_gold_of_label(const json_t *row, struct text answer, struct item *out,
                                        struct err *e);

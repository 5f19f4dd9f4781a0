/* node: a value as somebody wrote it (sweep file, --set, JSON), with the place where it stands.
 *
 * A tree between the parsers and the options table: the parsers know no keys, the table knows no
 * YAML. Trees are at most NODE_DEPTH deep, so that walks over them may recurse. */
#pragma once
#include "util/err.h"
#include "util/json.h"
#include <stdbool.h>
#include <stdint.h>

enum node_kind { NODE_NULL, NODE_SCALAR, NODE_LIST, NODE_MAP };

enum { NODE_DEPTH = 64, NODE_PLACE = 320, NODE_SHOWN = 80 };

/* Where a value was written. Strings are borrowed and outlive the tree. */
struct node_place {
    const char *file;     /* NULL: no file */
    const char *override; /* the text behind --set; NULL: none */
    int64_t line, column; /* from 1 */
};

struct node {
    enum node_kind kind;
    bool quoted; /* a scalar that is text whatever it looks like */
    struct node_place place;
    struct node_place key_place; /* inside a mapping */
    char *key;                   /* inside a mapping */
    char *text;                  /* NODE_SCALAR */
    int64_t n, capacity;
    struct node **items; /* NODE_LIST, NODE_MAP */
};

/* *out is owned by the caller. ERR_NOMEM. */
MUST_USE enum status node_new(enum node_kind kind, const struct node_place *place,
                              struct node **out, struct err *e);
/* Plain text becomes a scalar, or NODE_NULL when it is empty, ~ or null and not quoted. */
MUST_USE enum status node_new_scalar(const char *text, bool quoted, const struct node_place *place,
                                     struct node **out, struct err *e);
void node_free(struct node *n);

/* Appends child to a list or mapping, which owns it then; child is freed on failure. */
MUST_USE enum status node_append(struct node *n, struct node *child, struct err *e);

/* The value of a key, NULL if there is none (or n is no mapping). */
struct node *node_find(const struct node *n, const char *key);

/* "file:line:column: ", "--set key=value: " or "". */
void node_place_text(const struct node_place *place, char text[NODE_PLACE]);

/* What stands there, for messages: `[..]`, the text (on one line, shortened), "nothing", ... */
void node_show(const struct node *n, char text[NODE_SHOWN]);

/* Copies text for a message: control characters and broken UTF-8 replaced, at most size - 1 bytes,
 * "..." where it was cut. */
void text_show(const char *from, char *text, size_t size);

/* A tree with the same meaning and no places. Reals keep their bits. ERR_FORMAT (too deep, text
 * with NUL), ERR_NOMEM. */
MUST_USE enum status node_from_json(const json_t *json, struct node **out, struct err *e);

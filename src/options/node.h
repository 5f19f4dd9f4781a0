/* node: a value of a sweep file, --set or JSON as text, with its location in the source.
 *
 * Parsers make a tree of nodes without knowing keys; options tables read it without knowing YAML.
 * Trees are at most NODE_DEPTH deep, so that functions on them may recurse. */
#pragma once
#include "util/err.h"
#include "util/json.h"

enum node_kind { NODE_NULL, NODE_SCALAR, NODE_LIST, NODE_MAP };

enum { NODE_DEPTH = 64, NODE_PLACE = 320, NODE_SHOWN = 80 };

/* Where a value was written. Strings are borrowed and must outlive the tree. */
struct node_place {
    const char *file;     /* NULL: no file */
    const char *override; /* the argument of --set; NULL: none */
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

/* *out = a new node at a place (NULL: none), owned by the caller. ERR_NOMEM. */
MUST_USE enum status node_new(enum node_kind kind, const struct node_place *place,
                              struct node **out, struct err *e);
/* The same of a text: a scalar, or NODE_NULL if it is empty, ~ or null and not quoted. ERR_NOMEM.
 */
MUST_USE enum status node_new_scalar(const char *text, bool quoted, const struct node_place *place,
                                     struct node **out, struct err *e);
/* *out = a copy of the tree, owned by the caller. ERR_NOMEM. */
MUST_USE enum status node_copy(const struct node *n, struct node **out, struct err *e);
void node_free(struct node *n);
CLEANUP_BY_VALUE(struct node, node_free);

/* Appends child to a list or mapping, which then owns it; frees child on failure. ERR_NOMEM. */
MUST_USE enum status node_append(struct node *n, struct node *child, struct err *e);

/* The value of a key, borrowed; NULL if there is none or n is no mapping. */
struct node *node_find(const struct node *n, const char *key);

/* A mapping with none of the keys of `own` and one of `others` (both end with NULL) is a file of
 * another kind. ERR_USAGE with "FILE: it has the key KEY: " and `message`. */
MUST_USE enum status node_check_kind(const struct node *root, const char *const *own,
                                     const char *const *others, const char *message, struct err *e);

/* "file:line:column: ", "--set key=value: " or "". */
void node_place_text(const struct node_place *place, char text[NODE_PLACE]);

/* The value for a message: the text (on one line, shortened), "a list of 3", "nothing", ... */
void node_show(const struct node *n, char text[NODE_SHOWN]);

/* Copies text for a message: control characters and broken UTF-8 replaced, at most size - 1 bytes,
 * "..." where it was cut. */
void text_show(const char *from, char *text, size_t size);

/* *out = the tree of a JSON value, without places, owned by the caller. Reals keep their bits.
 * ERR_FORMAT (too deep, text with NUL), ERR_NOMEM. */
MUST_USE enum status node_from_json(const json_t *json, struct node **out, struct err *e);

/* yaml: reads one YAML document into a tree of nodes, with libyaml's event parser.
 *
 * Refuses, with a message, what makes YAML dangerous or ambiguous: anchors and aliases, tags,
 * several documents, keys that are not text, nesting beyond NODE_DEPTH, more than YAML_EVENTS
 * events, files larger than YAML_BYTES. Whoever reads the tree checks for repeated keys. */
#pragma once
#include "options/node.h"

enum { YAML_EVENTS = 1000000, YAML_BYTES = 16 << 20 };

/* *out = the tree, owned by the caller (node_free); path must outlive it. ERR_IO; ERR_USAGE with
 * file, line and column; ERR_NOMEM. */
MUST_USE enum status yaml_read_file(const char *path, struct node **out, struct err *e);

/* The same for a text of n bytes at a place (line and column are filled in if it has a file). An
 * empty text gives a NODE_NULL. */
MUST_USE enum status yaml_read_text(const char *text, size_t n, const struct node_place *place,
                                    struct node **out, struct err *e);

/* Applies --set KEY=VALUE to the tree. text: "run.threads=2", "models[0].name=x", "bits=[3, 4]".
 * The value is read as YAML; an empty one or null removes the key. Keys are checked when the tree
 * is read, whose messages then name --set. text must outlive the tree. ERR_USAGE, ERR_NOMEM. */
MUST_USE enum status override_apply(struct node *root, const char *text, struct err *e);

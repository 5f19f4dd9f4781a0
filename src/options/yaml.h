/* yaml: one YAML document as a tree of nodes, by libyaml's event parser.
 *
 * What makes YAML dangerous or ambiguous is refused with one line that says so: anchors and
 * aliases, tags, several documents, keys that are no text, nesting beyond NODE_DEPTH, more than
 * YAML_EVENTS events, files above YAML_BYTES. Repeated keys are left to the reader of the tree. */
#pragma once
#include "options/node.h"

enum { YAML_EVENTS = 1000000, YAML_BYTES = 16 << 20 };

/* *out is owned by the caller (node_free); path must outlive it. ERR_IO, ERR_USAGE with file, line
 * and column, ERR_NOMEM. */
MUST_USE enum status yaml_read_file(const char *path, struct node **out, struct err *e);

/* The same for a text whose place is `place` (line and column are filled in when it has a file).
 * An empty text gives a NODE_NULL. */
MUST_USE enum status yaml_read_text(const char *text, size_t n, const struct node_place *place,
                                    struct node **out, struct err *e);

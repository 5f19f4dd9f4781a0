/* override: --set key=value upon the tree of a sweep file. */
#pragma once
#include "options/node.h"

/* text: "run.threads=2", "models[0].name=x", "bits=[3, 4]"; the value is read as YAML, an empty one
 * or null takes the key back. Keys are not checked here: the tree's reader does, and says --set.
 * text must outlive the tree. ERR_USAGE. */
MUST_USE enum status override_apply(struct node *root, const char *text, struct err *e);

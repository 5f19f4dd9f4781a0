/* override: applies --set key=value to the tree of a sweep file. */
#pragma once
#include "options/node.h"

/* text: "run.threads=2", "models[0].name=x", "bits=[3, 4]". The value is read as YAML; an empty one
 * or null removes the key. Keys are checked when the tree is read, whose messages then name --set.
 * text must outlive the tree. ERR_USAGE, ERR_NOMEM. */
MUST_USE enum status override_apply(struct node *root, const char *text, struct err *e);

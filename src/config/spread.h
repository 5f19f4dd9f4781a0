/* spread: what a sweep file says once for several entries, written out. */
#pragma once
#include "options/node.h"

/* The sweep's `stage` becomes that of the models that say nothing of theirs. An entry of `methods`
 * with the lists W, A or KV becomes one for each combination of these widths: W of its method, or
 * 16 of method none; A of `activations`, KV of `keys` and `values`, whose other keys it keeps. The
 * combination in which nothing is quantized is left out. ERR_USAGE with the place: no list of
 * numbers, or a key that contradicts it; ERR_NOMEM. */
MUST_USE enum status sweep_spread(struct node *root, struct err *e);

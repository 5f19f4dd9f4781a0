/* unfinished: what runs of an output of qtraj train have yet to leave. Local. */
#pragma once
#include "util/err.h"

/* Warns of each run in the output that has not ended, and of how many branches that begin at one
 * have no checkpoint yet; of branches that have not begun nothing is known. ERR_NOMEM. */
MUST_USE enum status unfinished_warn(const char *output, struct err *e);

/* join: one array of sequences from those of several datasets and of the tasks. */
#pragma once
#include "model/sequences.h"

/* *out (the caller frees with sequences_free, also after a failure) = the sequences of n parts,
 * then those of the tasks (`more`, with segments; NULL: none). Bytes are retained only if every
 * part has them. first (n + 1, of which the first is 0) = the first sequence of each part.
 * ERR_NOMEM. */
MUST_USE enum status sequences_join(const struct sequences *parts, int64_t n,
                                    const struct sequences *more, struct sequences *out,
                                    int64_t *first, struct err *e);

/* arrange: token sequences shortened, sorted by length, and padded in batches. */
#pragma once
#include "model/sequences.h"

struct arrangement {
    int64_t max_tokens; /* each sequence is cut to its first tokens; 0: not */
    bool by_length;     /* the longest first; the sort is stable */
    int64_t batch;  /* so many consecutive sequences are padded on the right to the length of the
                       longest of them; 0: no padding */
    int32_t pad_id; /* with this token */
};

/* Arranges the sequences. Padding counts no bytes; with padding s->valid holds the lengths before.
 * s->valid must be NULL at first. On ERR_NOMEM *s is unchanged. */
MUST_USE enum status sequences_arrange(struct sequences *s, const struct arrangement *a,
                                       struct err *e);

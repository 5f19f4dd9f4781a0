/* arrange: token sequences shortened, sorted by length, and padded in batches. */
#pragma once
#include "model/sequences.h"

/* Shortens each sequence, in place, to its first max_tokens tokens. s->valid must be NULL. */
void sequences_cut(struct sequences *s, int64_t max_tokens);

/* Sorts the sequences by length, the longest first; the sort is stable. On ERR_NOMEM *s is
 * unchanged. */
MUST_USE enum status sequences_sort(struct sequences *s, struct err *e);

/* Pads each batch of `batch` consecutive sequences on the right with token `id` to the length of
 * its longest. Padding counts no bytes; s->valid holds the original lengths. On ERR_NOMEM *s is
 * unchanged. */
MUST_USE enum status sequences_pad(struct sequences *s, int64_t batch, int32_t id, struct err *e);

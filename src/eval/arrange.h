/* arrange: sequences cut, in another order, and filled up to equal length in batches. */
#pragma once
#include "model/sequences.h"

/* Of each sequence the first `most` tokens stay; s->valid is NULL. */
void sequences_cut(struct sequences *s, int64_t most);

/* Longest first; equally long ones as they stand. ERR_NOMEM, *s is as it was then. */
MUST_USE enum status sequences_sort(struct sequences *s, struct err *e);

/* Every `batch` sequences in a row become as long as the longest of them: ids on the right, which
 * stand for no bytes; s->valid says how long each was. ERR_NOMEM, *s is as it was then. */
MUST_USE enum status sequences_pad(struct sequences *s, int64_t batch, int32_t id, struct err *e);

/* overlap: text that evaluation and calibration share. */
#pragma once
#include "model/sequences.h"

/* A span of so many equal tokens is taken for the same text; shorter ones recur by chance. */
enum { OVERLAP_SPAN = 32 };

/* *found = how many of the sequences first to end - 1 of `s` also stand in `in`: at least half of
 * the tokens of such a sequence lie in spans of OVERLAP_SPAN tokens that occur, in this order,
 * inside one sequence of `in`. Where the two cut a text does not matter, nor which files it came
 * from. A sequence of fewer tokens counts if `in` has one that is equal to it. Padding is ignored.
 * Time and memory are linear in the tokens. ERR_NOMEM. */
MUST_USE enum status overlap_count(const struct sequences *s, int64_t first, int64_t end,
                                   const struct sequences *in, int64_t *found, struct err *e);

/* shared[i] = whether sequence i of `s` and some sequence of `in` have a span of OVERLAP_SPAN
 * tokens in common, or, if it has fewer tokens, are equal; otherwise shared[i] stays. ERR_NOMEM. */
MUST_USE enum status overlap_mark(const struct sequences *s, const struct sequences *in,
                                  bool *shared, struct err *e);

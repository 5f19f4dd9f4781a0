/* overlap: text that evaluation and calibration share. */
#pragma once
#include "model/sequences.h"

/* A span of so many equal tokens is taken for the same text; shorter ones recur by chance. */
enum { OVERLAP_SPAN = 32 };

/* covered[i - first] = how many tokens of sequence i of `s`, first to end - 1, lie in spans of
 * OVERLAP_SPAN tokens that occur, in this order, inside one sequence of `in`; of a sequence of
 * fewer tokens all if `in` has one that is equal to it, else 0. Where the two cut a text does not
 * matter, nor which files it came from. Padding is ignored. Time and memory are linear in the
 * tokens. ERR_NOMEM. */
MUST_USE enum status overlap_cover(const struct sequences *s, int64_t first, int64_t end,
                                   const struct sequences *in, int64_t *covered, struct err *e);
/* *found = how many of those sequences also stand in `in`: at least half of their tokens do. */
MUST_USE enum status overlap_count(const struct sequences *s, int64_t first, int64_t end,
                                   const struct sequences *in, int64_t *found, struct err *e);

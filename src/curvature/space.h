/* space: how long vectors are distributed over ranks. A single rank has whole vectors. Ranks that
 * share vectors have one contiguous part each, cut evenly whatever tensors lie there, and sum over
 * all numbers through a callback, so that the estimates need not know about ranks
 * (docs/decisions/0014-curvature-in-groups.md). */
#pragma once
#include <stdint.h>

struct space {
    int64_t total;    /* numbers of a whole vector */
    int64_t first, n; /* this rank's part: [first, first + n) */
    int64_t n_max;    /* largest n of all ranks */
    /* x (k) = the sums of x over the ranks, the same bits on all. Collective. After a failure on
     * any rank the sums are NaN, and every later collective operation of these ranks fails. NULL: a
     * single rank. */
    void (*sum)(void *context, int64_t k, double *x);
    void *context;
};

/* The space of a single rank with whole vectors of n numbers. */
struct space space_alone(int64_t n);
/* The part of rank `rank` of `size`; parts differ by at most one number. Sets no callback. */
struct space space_cut(int64_t total, int rank, int size);
/* Replaces the range [*begin, *end) of the whole vector by its overlap with this rank's part,
 * counted from `first`; *begin = *end if there is none. Local. */
void space_clip(const struct space *s, int64_t *begin, int64_t *end);
/* Collective: calls the callback; does nothing on a single rank. */
void space_sum(const struct space *s, int64_t k, double *x);
/* Collective: x (k) = the first rank's x. For values that decide when an iteration ends: LAPACK and
 * libm may round differently on another CPU, and ranks that decide differently would deadlock. */
void space_agree(const struct space *s, int64_t k, double *x);

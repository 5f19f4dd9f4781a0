/* space: where long vectors live. A rank alone has them whole; where ranks share them each has one
 * run of their numbers, cut evenly whatever tensors lie there, and sums over all numbers go through
 * a callback, so that the estimates need not know of ranks. */
#pragma once
#include <stdint.h>

struct space {
    int64_t total;    /* numbers of a whole vector */
    int64_t first, n; /* those here are [first, first + n) of it */
    int64_t most;     /* n of the rank that has most */
    /* x (k) = the sums over the ranks, the same bits on all. Collective; after a failure of any of
     * them NaN, and every later call of the ranks' common operations fails. NULL: a rank alone. */
    void (*sum)(void *context, int64_t k, double *x);
    void *context;
};

struct space space_alone(int64_t n);
/* The rank's run, as good as equal ones for all; with no callback yet. */
struct space space_cut(int64_t total, int rank, int size);
/* [*begin, *end) becomes what of it is here, counted from `first`; empty: *begin = *end. */
void space_meet(const struct space *s, int64_t *begin, int64_t *end);
/* Does nothing for a rank alone. */
void space_sum(const struct space *s, int64_t k, double *x);
/* x (k) = the first rank's, for what decides where an iteration ends: LAPACK and libm may round
 * otherwise on another CPU, and ranks that part there would wait for each other for ever. */
void space_agree(const struct space *s, int64_t k, double *x);

/* operator: a symmetric linear operator on the vectors of a space, given only by its products with
 * vectors. The eigenvalue, trace and density estimates need nothing else, so that tests can pass
 * them a dense matrix. */
#pragma once
#include "curvature/space.h"
#include "records/saved.h"
#include "util/err.h"

struct operator
{
    struct space space;
    /* y[i] (space.n) = A x[i] (space.n) for i < k; x and y must not overlap. One call with k
     * vectors may cost less than k calls. Collective if the vectors are distributed; so are then
     * all estimates that take the operator, with the same results on every rank. */
    enum status (*apply)(void *context, int64_t k, const float *const *x, float *const *y,
                         struct err *e);
    void *context;
    /* Between two products the estimates save their state here (saved_point), and continue from it.
     * NULL: nothing is saved. */
    struct saved *saved;
};

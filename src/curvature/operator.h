/* operator: a symmetric linear operator on the vectors of a space, known only by what it does to
 * them. The eigenvalue, trace and density estimates see nothing else, so that tests can hand them a
 * dense matrix. */
#pragma once
#include "curvature/space.h"
#include "util/err.h"
#include <stdint.h>

struct operator
{
    struct space space;
    /* y[i] (space.n) = A x[i] (space.n) for i < k; x and y do not overlap. k vectors at once may
     * cost less than k calls. Collective where ranks share the vectors: so are then all estimates
     * that take the operator, with the same results on every rank. */
    enum status (*apply)(void *context, int64_t k, const float *const *x, float *const *y,
                         struct err *e);
    void *context;
};

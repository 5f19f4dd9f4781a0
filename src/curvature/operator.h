/* operator: a symmetric linear operator on vectors of n numbers, known only by what it does to
 * them. The eigenvalue, trace and density estimates see nothing else, so that tests can hand them a
 * dense matrix. */
#pragma once
#include "util/err.h"
#include <stdint.h>

struct operator
{
    int64_t n;
    /* y[i] (n) = A x[i] (n) for i < k; x and y do not overlap. k vectors at once may cost less than
     * k calls. */
    enum status (*apply)(void *context, int64_t k, const float *const *x, float *const *y,
                         struct err *e);
    void *context;
};

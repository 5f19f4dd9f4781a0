/* subject: a loss whose curvature is measured: products of its Hessian, its gradient, and how the
 * vector of its parameters is cut into tensors. */
#pragma once
#include "curvature/hvp.h"
#include "curvature/operator.h"

struct subject {
    struct operator hessian;
    /* g (hessian.space.n) = the gradient, *loss = the loss. Collective as hessian.apply is. */
    enum status (*gradient)(void *context, float *g, double *loss, struct err *e);
    void *context; /* first argument of gradient */
    int64_t n_tensors;
    struct hvp_tensor *tensors; // (n_tensors) they cover the whole vector, in order
};

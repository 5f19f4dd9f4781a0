/* subject: a loss whose curvature is measured: the products of its Hessian, its gradient, and how
 * the vector of its parameters is cut into tensors. */
#pragma once
#include "curvature/hvp.h"
#include "curvature/operator.h"

struct subject {
    struct operator hessian;
    /* g (hessian.space.n) = the gradient, *loss the loss. Collective as the products. */
    enum status (*gradient)(void *context, float *g, double *loss, struct err *e);
    void *context; /* of gradient */
    int64_t n_tensors;
    struct hvp_tensor *tensors; // (n_tensors) cover the whole vector in order
};

/* The loss of h, which must outlive the subject. ERR_NOMEM. */
MUST_USE enum status subject_of_hvp(struct hvp *h, struct subject *out, struct err *e);
void subject_free(struct subject *s);

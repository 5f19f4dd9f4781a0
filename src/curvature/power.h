/* power: the eigenvalue of largest magnitude by power iteration, as the papers got it. */
#pragma once
#include "curvature/operator.h"
#include <stdbool.h>

/* An eigenvalue as an iteration left it. */
struct eigenpair {
    double value;    /* with its sign */
    double residual; /* ‖A v - value v‖ of a unit vector v: some eigenvalue is at most this far */
    bool converged;
};

enum power_stop {
    /* The rule of PyHessian (hessian.py, eigenvalues): |l_old - l| / (|l_old| + 1e-6) < tolerance,
     * and the value returned is l_old. It stops where the iteration is slow, not where it is done:
     * read the residual. */
    POWER_PYHESSIAN,
    POWER_RESIDUAL /* ‖A v - l v‖ <= tolerance |l| */
};

struct power_options {
    enum power_stop stop;
    double tolerance;   /* PyHessian: 1e-3 */
    int64_t products;   /* cap, at least 1; PyHessian: 100 */
    uint64_t stream;    /* of the random start (rng.h) */
    const float *start; /* (n) warm start, or NULL; see vector_start */
};

struct power_result {
    struct eigenpair top; /* converged: the rule stopped it, not the cap */
    int64_t iterations;   /* = products */
};

/* vector (space.n, as all vectors here) = the unit vector of the residual, for a later warm start.
 * Needs one vector of n beside it. ERR_USAGE: an empty operator or a cap below 1; ERR_NUMERIC: a
 * product is not finite; what apply returns. */
MUST_USE enum status power_iterate(const struct operator* a, const struct power_options *o,
                                   float *vector, struct power_result *out, struct err *e);

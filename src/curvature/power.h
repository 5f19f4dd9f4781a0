/* power: the eigenvalue of largest magnitude by power iteration, as PyHessian computes it
 * (docs/math/curvature.md). */
#pragma once
#include "curvature/forecast.h"
#include "curvature/operator.h"

/* An eigenvalue as estimated by an iteration. */
struct eigenpair {
    double value;    /* with its sign */
    double residual; /* ‖A v - value v‖ for a unit vector v: some eigenvalue is at most this far
                        away */
    bool converged;  /* eigenpair_converged, whatever ended the iteration */
};

/* What "converged" means, here and in the cube: the residual is at most tolerance |value|, or at
 * most 16 units in the last place of an f32 of the size of `scale`, the operator's norm: smaller
 * ones are rounding noise. */
bool eigenpair_converged(const struct eigenpair *p, double tolerance, double scale);

enum power_stop {
    /* The rule of PyHessian (hessian.py, eigenvalues): stop when |l_old - l| / (|l_old| + 1e-6) <
     * tolerance, and return l_old. It stops when the iteration is slow, which need not mean that it
     * has converged: see the residual. */
    POWER_PYHESSIAN,
    POWER_RESIDUAL /* ‖A v - l v‖ <= tolerance |l| */
};

struct power_options {
    enum power_stop stop;
    double tolerance;          /* PyHessian: 1e-3 */
    int64_t products;          /* maximum, at least 1; PyHessian: 100 */
    uint64_t stream;           /* of the random start (rng.h) */
    const float *start;        /* (n) warm start, or NULL; see vector_start */
    struct forecast *forecast; /* borrowed, or NULL */
};

struct power_result {
    struct eigenpair top;
    int64_t iterations; /* = products */
};

/* vector (space.n) = the unit vector that the residual belongs to, for a later warm start.
 * Allocates one more vector. Collective as a is. ERR_USAGE: an empty operator or a maximum below 1;
 * ERR_NUMERIC: a product is not finite; ERR_NOMEM; errors of apply. */
MUST_USE enum status power_iterate(const struct operator* a, const struct power_options *o,
                                   float *vector, struct power_result *out, struct err *e);

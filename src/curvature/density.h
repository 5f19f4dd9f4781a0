/* density: the spectral density of an operator by stochastic Lanczos quadrature (Ubaru, Chen, Saad
 * 2017; PyHessian's density). Each run is a Lanczos iteration from a random vector; the Ritz values
 * are nodes, the squared first components of the Ritz vectors weights (docs/math/curvature.md). */
#pragma once
#include "curvature/operator.h"

struct density_options {
    int64_t runs, steps; /* at most runs * steps products */
    uint64_t seed;       /* run r starts at the signs of stream rng_stream(seed, r) */
    /* Maximum bytes of stored vectors; 0: no limit. If steps + 1 vectors do not fit, three are
     * stored and there is no re-orthogonalisation: converged nodes then come with copies that share
     * their weight, and the density stays correct. */
    int64_t memory;
};

struct density {
    int64_t runs, steps, products;
    bool orthogonal; /* all vectors were stored and re-orthogonalised */
    int64_t *count;  // (runs) nodes; fewer than steps if a run reaches an invariant subspace
    /* (runs, steps) nodes in ascending order and weights that sum to 1, per run; NaN after the
     * count. The mean over the runs of sum w f(node) estimates tr f(A) / n. */
    double *node, *weight;
};

/* Free *out with density_free after success. Collective as a is. ERR_USAGE: an empty operator, no
 * runs or no steps; ERR_NUMERIC: a product is not finite; ERR_NOMEM; errors of apply. */
MUST_USE enum status density_estimate(const struct operator* a, const struct density_options *o,
                                      struct density *out, struct err *e);
void density_free(struct density *d);

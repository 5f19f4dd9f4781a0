/* density: the spectral density of an operator by stochastic Lanczos quadrature (Ubaru, Chen, Saad
 * 2017; as PyHessian's density): each run is a Lanczos iteration from a random vector, whose Ritz
 * values are nodes and whose squared first components are weights. docs/math/curvature.md. */
#pragma once
#include "curvature/operator.h"
#include <stdbool.h>

struct density_options {
    int64_t runs, steps; /* products: runs * steps at most */
    uint64_t seed;       /* run r starts at the signs of stream rng_stream(seed, r) */
    /* Bytes that stored vectors may take, 0: any. When steps + 1 vectors do not fit, three are kept
     * and none is re-orthogonalised: then copies of converged nodes appear, that share the weight
     * of one; the density stays right. */
    int64_t memory;
};

struct density {
    int64_t runs, steps, products;
    bool orthogonal; /* all vectors were kept */
    int64_t *count;  // (runs) nodes found: fewer than steps where a run spans an invariant subspace
    /* (runs, steps) nodes ascending in each run, weights that sum to 1 in each run; NaN behind the
     * count. The mean over runs of sum w f(node) estimates tr f(A) / n. */
    double *node, *weight;
};

/* ERR_USAGE: an empty operator, no runs or no steps; ERR_NUMERIC: a product is not finite;
 * ERR_NOMEM; what apply returns. */
MUST_USE enum status density_estimate(const struct operator* a, const struct density_options *o,
                                      struct density *out, struct err *e);
void density_free(struct density *d);

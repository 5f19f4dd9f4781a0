/* lanczos: the largest and smallest eigenvalues by the Lanczos iteration with full
 * re-orthogonalisation and thick restarts (Wu and Simon 2000) when the storage for vectors is full
 * (docs/math/curvature.md). */
#pragma once
#include "curvature/operator.h"
#include "curvature/power.h"

enum { LANCZOS_LARGEST = 1, LANCZOS_SMALLEST = 2, LANCZOS_DOMINANT = 4 };
enum { LANCZOS_VECTORS_MIN = 4 };

struct lanczos_options {
    unsigned want; /* which must converge: bits LANCZOS_*; all three are always estimated */
    /* Stops when each residual is at most tolerance |value|, or at most 16 units in the last place
     * of an f32 of the size of the dominant eigenvalue (smaller differences are rounding noise). */
    double tolerance;
    int64_t products;          /* maximum, at least 1 */
    int64_t vectors;           /* maximum number of stored vectors, at least LANCZOS_VECTORS_MIN */
    uint64_t stream;           /* of the random start (rng.h) */
    const float *start;        /* (n) warm start, or NULL; see vector_start */
    struct forecast *forecast; /* borrowed, or NULL */
};

struct lanczos_result {
    /* The largest, the smallest (algebraically), and the one of these of larger magnitude. The
     * residual is the bound beta_m |s_m|, which in exact arithmetic equals ‖A x - value x‖ of the
     * Ritz vector x, or the rounding error of f32 vectors if that is larger. */
    struct eigenpair largest, smallest, dominant;
    int64_t iterations; /* = products */
    int64_t restarts;
    int64_t vectors; /* stored, at most n + 1 */
};

/* largest, smallest (space.n) = the unit Ritz vectors; each may be NULL. Collective as a is.
 * ERR_USAGE: an empty operator or a maximum too small; ERR_NUMERIC: a product is not finite;
 * ERR_NOMEM: fewer vectors might fit; errors of apply. */
MUST_USE enum status lanczos_ends(const struct operator* a, const struct lanczos_options *o,
                                  float *largest, float *smallest, struct lanczos_result *out,
                                  struct err *e);

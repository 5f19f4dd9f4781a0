/* lanczos: the ends of the spectrum by the Lanczos iteration with full re-orthogonalisation,
 * restarted with its best Ritz vectors ("thick": Wu and Simon 2000) when the vectors that may be
 * stored are used up. docs/math/curvature.md. */
#pragma once
#include "curvature/operator.h"
#include "curvature/power.h"

enum { LANCZOS_LARGEST = 1, LANCZOS_SMALLEST = 2, LANCZOS_DOMINANT = 4 };
enum { LANCZOS_VECTORS_MIN = 4 };

struct lanczos_options {
    unsigned want; /* which must converge: any of LANCZOS_*; all three are estimated anyway */
    /* Stops when the residual of each is at most tolerance |value|, or at most 16 units in the last
     * place of an f32 as large as the dominant one (below that the products are noise). */
    double tolerance;
    int64_t products;   /* cap, at least 1 */
    int64_t vectors;    /* of n numbers to store, at least LANCZOS_VECTORS_MIN */
    uint64_t stream;    /* of the random start (rng.h) */
    const float *start; /* (n) warm start, or NULL; see vector_start */
};

struct lanczos_result {
    /* Largest and smallest algebraically, and the one of the two that has the larger magnitude. The
     * residual is the bound beta_m |s_m|, in exact arithmetic equal to ‖A x - value x‖ of the Ritz
     * vector x, or what f32 vectors can hold, if that is more. */
    struct eigenpair largest, smallest, dominant;
    int64_t iterations; /* = products */
    int64_t restarts;
    int64_t vectors; /* stored, at most n + 1 */
};

/* largest, smallest (n): the unit Ritz vectors; each may be NULL. ERR_USAGE: an empty operator or a
 * cap too small; ERR_NUMERIC: a product is not finite; ERR_NOMEM: fewer vectors may fit; what apply
 * returns. */
MUST_USE enum status lanczos_ends(const struct operator* a, const struct lanczos_options *o,
                                  float *largest, float *smallest, struct lanczos_result *out,
                                  struct err *e);

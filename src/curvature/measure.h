/* measure: all that the options of curvature ask for, of one subject. */
#pragma once
#include "config/curvature_options.h"
#include "curvature/density.h"
#include "curvature/lanczos.h"
#include "curvature/split.h"

struct curvature_request {
    struct curvature_options options;
    uint64_t seed;
    bool probe; /* v'Hv of the signs of stream `salt` (rng.h) too */
    uint64_t salt;
    const float *start; /* (n here) warm start of the sharpness, or NULL */
    bool keep_vector;   /* its eigenvector too, for a warm start */
};

/* What was not asked for is NaN, 0 or NULL. Per tensor: in the order of the subject's. */
struct curvature {
    int64_t n_tensors, parameters;
    double loss, gradient_norm;
    double *gradient_norms; // (n_tensors)

    /* By power iteration the eigenvalue of largest magnitude; by Lanczos the largest one, and
     * the smallest, and whichever of them has the larger magnitude. */
    struct eigenpair sharpness, smallest, dominant;
    int64_t iterations, restarts;
    int64_t vectors; /* stored by Lanczos */
    float *vector;   // (n here) or NULL

    struct trace_estimate trace; /* its parts: the tensors */
    struct trace_split split;
    struct density density;

    double vhv;
    double *vhv_per_tensor, *hv_norms; // (n_tensors) parts of v'Hv, norms of the parts of Hv

    int64_t products;
    double seconds;
};

/* Collective where ranks share the subject's vectors, with the same out on all but for `vector`, of
 * which each has its part. out: freed with curvature_free, whatever is returned; borrows names from
 * s. ERR_NUMERIC: loss, gradient or a product is not finite; ERR_USAGE: vectors that do not fit
 * request->options.memory; ERR_NOMEM; what the subject's products and gradient return. */
MUST_USE enum status curvature_measure(const struct subject *s,
                                       const struct curvature_request *request,
                                       struct curvature *out, struct err *e);
void curvature_free(struct curvature *c);

/* Bytes at the peak: vectors of n numbers (space.most) and what the calls take beside them, without
 * what a warm start adds (its vector, and the one that is kept). */
int64_t curvature_bytes(const struct curvature_options *o, int64_t n,
                        const struct hvp_bytes *calls);

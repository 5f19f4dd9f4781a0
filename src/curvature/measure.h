/* measure: all curvature measurements of one subject that the options ask for. */
#pragma once
#include "curvature/curvature_options.h"
#include "curvature/density.h"
#include "curvature/lanczos.h"
#include "curvature/split.h"

struct curvature_request {
    struct curvature_options options;
    uint64_t seed;
    bool probe; /* also v'Hv, v being the random signs of stream `salt` (util/rng.h) */
    uint64_t salt;
    const float *start; /* (space.n) warm start of the sharpness, or NULL */
    /* Called during the sharpness and before each estimate with the number of products that are
     * expected. May be NULL. */
    void (*ahead)(void *context, int64_t products);
    void *ahead_context;
    bool keep_vector; /* also return the eigenvector of the sharpness, for a warm start */
};

/* What was not requested is NaN, 0 or NULL. Arrays over tensors are in the subject's order. */
struct curvature {
    int64_t n_tensors, parameters;
    double loss, gradient_norm;
    double *gradient_norms; // (n_tensors)

    /* Power iteration: the eigenvalue of largest magnitude. Lanczos: the largest, the smallest, and
     * the one of these of larger magnitude. */
    struct eigenpair sharpness, smallest, dominant;
    int64_t iterations, restarts;
    int64_t vectors; /* stored by Lanczos */
    float *vector;   // (space.n) eigenvector of the sharpness, or NULL

    struct trace_estimate trace; /* its parts: the tensors */
    struct trace_split split;
    struct density density;

    double vhv;
    double *vhv_per_tensor, *hv_norms; // (n_tensors) parts of v'Hv; norms of the parts of Hv

    int64_t products;
    double seconds;
};

/* Collective if the subject's vectors are distributed, with the same *out on all ranks except
 * `vector`, of which each has its part. Free *out with curvature_free whatever is returned; it
 * borrows names from s. ERR_NUMERIC: loss, gradient or a product is not finite; ERR_USAGE: the
 * vectors do not fit request->options.memory; ERR_NOMEM; errors of the subject's products and
 * gradient. */
MUST_USE enum status curvature_measure(const struct subject *s,
                                       const struct curvature_request *request,
                                       struct curvature *out, struct err *e);
void curvature_free(struct curvature *c);

/* Peak memory in bytes: vectors of n numbers (space.n_max) and what the calls take besides them,
 * without the vectors of warm starts (start and vector). */
int64_t curvature_bytes(const struct curvature_options *o, int64_t n,
                        const struct hvp_bytes *calls);
/* Bytes of vectors in its saved state, at most. */
int64_t curvature_saved_bytes(const struct curvature_options *o, int64_t n);

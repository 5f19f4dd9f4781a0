/* hvp_predict: what the second-order expansion says of the loss when the weights change by delta:
 * L(W + delta) - L(W) = g . delta + delta . H delta / 2 + O(|delta|^3), as a whole and by tensor.
 */
#pragma once
#include "curvature/hvp.h"

#define prediction_make      REAL_NAME(prediction_make)
#define prediction_free      REAL_NAME(prediction_free)
#define prediction_is_finite REAL_NAME(prediction_is_finite)

struct prediction_part {
    double first_order;  /* g_t . delta_t */
    double second_order; /* delta_t . (H delta)_t / 2: over all tensors they add up to the whole */
    double diagonal;     /* delta_t . H_tt delta_t / 2: this tensor's change alone; else NaN */
};

struct prediction {
    double first_order, second_order;
    double squared_norm;           /* |delta|^2 */
    int64_t n_tensors;             /* those of hvp_tensor, in its order */
    struct prediction_part *parts; // (n_tensors)
};
void prediction_free(struct prediction *p);
/* diagonal: as it was made. */
bool prediction_is_finite(const struct prediction *p, bool diagonal);

/* out[i] = the prediction for delta[i] (n), i < k; freed by the caller, whatever is returned. g (n)
 * = the gradient. The k products share a pass; with `diagonal` so do those with each tensor's part
 * of the k, one pass a tensor. Memory beside delta: k vectors of n numbers, with `diagonal` 2 k.
 * Where a product is not finite (a change too large for f32) so is that prediction, and no other.
 * Collective with hvp_share_over: the same on all ranks. Errors of hvp_apply. */
MUST_USE enum status prediction_make(struct hvp *h, const real *g, int64_t k,
                                     const real *const *delta, bool diagonal,
                                     struct prediction *out, struct err *e);

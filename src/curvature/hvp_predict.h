/* hvp_predict: the second-order prediction of the change of the loss when the weights change by
 * delta, L(W + delta) - L(W) = g . delta + delta . H delta / 2 + O(|delta|^3), in total and by
 * tensor (docs/math/curvature.md). */
#pragma once
#include "curvature/hvp.h"
#include "records/saved.h"

/* How far a change of the loss is predicted: not at all, in total, or by layer too. */
enum second_order_depth { SECOND_ORDER_NONE, SECOND_ORDER_TOTAL, SECOND_ORDER_LAYERS };

struct prediction_part {
    double first_order;  /* g_t . delta_t */
    double second_order; /* delta_t . (H delta)_t / 2; sums to the total over all tensors */
    double diagonal;     /* delta_t . H_tt delta_t / 2, of this tensor's change alone; NaN: not
                            requested */
};

struct prediction {
    double first_order, second_order;
    double squared_norm;           /* |delta|^2 */
    int64_t n_tensors;             /* as hvp_tensor, in its order */
    struct prediction_part *parts; // (n_tensors)
};
void prediction_free(struct prediction *p);
/* Whether all its numbers are finite; diagonal: as passed to prediction_make. Local. */
bool prediction_is_finite(const struct prediction *p, bool diagonal);

/* out[i] = the prediction for delta[i] (n), i < k, given the gradient g (n); free each with
 * prediction_free whatever is returned. The k products share a pass; `diagonal` adds one pass per
 * tensor, shared by the k as well. Memory besides delta: k vectors of n numbers, with `diagonal` 2
 * k. If a product is not finite (a change too large for f32), only that prediction is not finite
 * either. Between the passes of `diagonal` it saves its state (saved.h; NULL: it does not), and
 * continues from it. Collective after hvp_share_over, with the same result on all ranks. As
 * hvp_apply. */
MUST_USE enum status prediction_make(struct hvp *h, const real *g, int64_t k,
                                     const real *const *delta, bool diagonal, struct saved *saved,
                                     struct prediction *out, struct err *e);

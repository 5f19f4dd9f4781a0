/* rotation_learn: rotations R1 and R2 (model/rotated.h) that are learned: SpinQuant (Liu et al.
 * 2024, arXiv 2405.16406, section 3.2). They minimise the loss of the model whose weights are
 * rounded to nearest, by gradient descent along orthogonal matrices (docs/methods.md). Nothing here
 * communicates: ranks with the same inputs learn the same, for any number of threads. */
#pragma once
#include "model/model.h"
#include "model/rotated.h"
#include "quant/quant.h"

struct rotation_recipe {
    int64_t steps, sequences; /* sequences of a step; the next ones in each, in turn */
    double rate;              /* the greatest step, with a cosine to 0 */
    int64_t bits;
    const struct quant_options *options; /* of method rtn */
    void (*stepped)(void *context);      /* after each step; NULL: nothing is called */
    void *context;
};
/* Learns R1, and R2 of each block, as far as `turned` (model_rotate of m) has them, from what they
 * are. s: calibration sequences. The gradient goes through rounding as if that were not there.
 * Logs the losses of the first and the last step. Parallel. ERR_NUMERIC: a loss is not finite;
 * ERR_IO, ERR_NOMEM; errors of the method. */
MUST_USE enum status rotation_learn(const struct model *m, struct model *turned,
                                    const struct sequences *s, const struct rotation_recipe *how,
                                    struct err *e);
/* Most bytes that this takes besides both models, with so many sequences a step. */
int64_t rotation_learn_bytes(const struct model_sizes *m, int64_t sequences, int64_t longest,
                             int64_t threads);

/* One step in parts, for tests. */
struct rotation_learner;
MUST_USE enum status rotation_learner_open(const struct model *m, struct model *turned,
                                           const struct rotation_recipe *how,
                                           struct rotation_learner **out, struct err *e);
void rotation_learner_close(struct rotation_learner *l);
CLEANUP_BY_VALUE(struct rotation_learner, rotation_learner_close);
/* *loss of the sequences, and its derivative A along R <- (1 + A) R, antisymmetric: borrowed, of R1
 * (C, C) and of all R2 (layers, D, D); NULL where there is none. */
MUST_USE enum status rotation_learner_gradient(struct rotation_learner *l,
                                               const struct sequences *s, double *loss,
                                               const float **stream, const float **heads,
                                               struct err *e);
/* R <- (1 + t/2 A)⁻¹ (1 - t/2 A) R of each matrix (Cayley; Li et al. 2020, arXiv 2002.01113),
 * t = min(rate, 1 / ‖A‖₁). */
MUST_USE enum status rotation_learner_turn(struct rotation_learner *l, double rate, struct err *e);

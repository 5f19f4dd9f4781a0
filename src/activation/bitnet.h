/* bitnet: what the linears of BitNet b1.58 (arXiv 2402.17764) round, in f32 as transformers does
 * (integrations/bitnet.py: WeightQuant, ActQuant). Local. */
#pragma once
#include <stdint.h>

/* x (n) <- a token's inputs in 8 bits: clamp(round(x s), -128, 127) / s, s = 127 / max(|x|, 1e-5).
 */
void bitnet_inputs(float *x, int64_t n);
/* to (n) = w as -m, 0 and m: clamp(round(w s), -1, 1) / s, s = 1 / max(mean |w|, 1e-5), over the
 * whole matrix; the mean is summed in f64. to may be w. Parallel inside. */
void bitnet_weights(const float *w, int64_t n, float *to);

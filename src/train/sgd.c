/* Stochastic gradient descent with momentum as torch.optim.SGD has it (dampening 0), but with the
 * decoupled weight decay of AdamW. */
#include "train/optimizer.h"

static void step(const struct optimizer_step *s, int64_t n, const float *w, const float *g,
                 float *m, float *v, float *out)
{
    const float clip = (float)s->clip, keep = (float)(1 - s->rate * s->decay);
    const float momentum = (float)s->options->momentum, rate = (float)s->rate;
    (void)v;
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        m[i] = momentum * m[i] + g[i] * clip;
        out[i] = w[i] * keep - rate * m[i];
    }
}

const struct optimizer optimizer_sgd = {
    .name = "sgd", .doc = "gradient descent with momentum", .moments = 1, .step = step};

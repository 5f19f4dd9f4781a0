/* AdamW (Loshchilov and Hutter 2019) as torch.optim.AdamW computes it: decay before the update,
 * eps outside the root of the corrected second moment. */
#include "math/kernel.h"
#include "train/optimizer.h"
#include <math.h>

KERNEL_STATIC(void, step,
              (const struct optimizer_step *s, int64_t n, const float *w, const float *g, float *m,
               float *v, float *out),
              (s, n, w, g, m, v, out))
{
    const struct optimizer_options *o = s->options;
    const double correct1 = 1 - pow(o->betas[0], (double)s->k);
    const double correct2 = 1 - pow(o->betas[1], (double)s->k);
    const float clip = (float)s->clip, keep = (float)(1 - s->rate * s->decay);
    const float first = (float)(1 - o->betas[0]), beta2 = (float)o->betas[1];
    const float second = (float)(1 - o->betas[1]), root = (float)sqrt(correct2);
    const float eps = (float)o->eps, size = (float)(s->rate / correct1);
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        const float x = g[i] * clip;
        m[i] += first * (x - m[i]);
        v[i] = v[i] * beta2 + second * x * x;
        out[i] = w[i] * keep - size * (m[i] / (sqrtf(v[i]) / root + eps));
    }
}

const struct optimizer optimizer_adamw = {
    .name = "adamw", .doc = "AdamW as torch's", .moments = 2, .step = step};

#include "activation/bitnet.h"
#include "activation/activation.h"
#include "math/kernel.h"

static const float smallest = 1e-5f; /* range of inputs, mean of weights */

KERNEL_STATIC(void, round_codes,
              (float scale, float least, float most, const float *x, float *to, int64_t n),
              (scale, least, most, x, to, n))
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float code = rintf(x[i] * scale);
        code = code < least ? least : code;
        code = code > most ? most : code;
        to[i] = code / scale;
    }
}

void bitnet_inputs(float *x, int64_t n)
{
    struct activation_range r = ACTIVATION_EMPTY;
    activation_extend(&r, x, n);
    round_codes(127 / fmaxf(fmaxf(-r.low, r.high), smallest), -128, 127, x, x, n);
}

enum { RUN = 4096, PARTS = 64 };

/* In as many parts whatever the threads. */
static double mean_size(const float *w, int64_t n)
{
    double part[PARTS], sum = 0;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < PARTS; i++) {
        double s = 0;
        for (int64_t k = n * i / PARTS; k < n * (i + 1) / PARTS; k++) s += fabs((double)w[k]);
        part[i] = s;
    }
    for (int i = 0; i < PARTS; i++) sum += part[i];
    return sum / (double)n;
}

void bitnet_weights(const float *w, int64_t n, float *to)
{
    const float scale = 1 / fmaxf((float)mean_size(w, n), smallest);
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n; i += RUN)
        round_codes(scale, -1, 1, w + i, to + i, n - i < RUN ? n - i : RUN);
}

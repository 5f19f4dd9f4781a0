/* kern_ref: the kernels of math/kern.h directly from their formulas, in f64 with libm, as the
 * reference of tests and benches. */
#pragma once
#include "math/kern.h"
#include <math.h>

static inline void ref_rms_norm(double *y, const float *x, const float *w, int64_t n, double eps)
{
    double squares = 0;
    for (int64_t i = 0; i < n; i++) squares += (double)x[i] * x[i];
    for (int64_t i = 0; i < n; i++) y[i] = w[i] * x[i] / sqrt(squares / (double)n + eps);
}

static inline void ref_layer_norm(double *y, const float *x, const float *w, const float *b,
                                  int64_t n, double eps)
{
    double mean = 0, var = 0;
    for (int64_t i = 0; i < n; i++) mean += x[i];
    mean /= (double)n;
    for (int64_t i = 0; i < n; i++) var += (x[i] - mean) * (x[i] - mean);
    var /= (double)n;
    for (int64_t i = 0; i < n; i++)
        y[i] = (w ? w[i] : 1.0) * (x[i] - mean) / sqrt(var + eps) + (b ? b[i] : 0.0);
}

static inline double ref_silu(double x)
{
    return x / (1 + exp(-x));
}

static inline double ref_gelu(double x)
{
    return 0.5 * x * erfc(-x * 0.70710678118654752440);
}

static inline double ref_gelu_tanh(double x)
{
    return 0.5 * x * (1 + tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x)));
}

static inline double ref_xielu(double x, const struct xielu *c)
{
    if (x > 0) return c->a * x * x + c->beta * x;
    return c->b * (expm1(fmin(x, c->eps)) - x) + c->beta * x;
}

/* Rotates one head of 2 half values by the angles. */
static inline void ref_rope(double *y, const float *x, const double *angle, int64_t half)
{
    for (int64_t j = 0; j < half; j++) {
        y[j] = x[j] * cos(angle[j]) - x[j + half] * sin(angle[j]);
        y[j + half] = x[j + half] * cos(angle[j]) + x[j] * sin(angle[j]);
    }
}

/* y (n) = softmax of x; returns log of the sum of e^x. */
static inline double ref_softmax(double *y, const float *x, int64_t n)
{
    double m = -INFINITY, sum = 0;
    for (int64_t i = 0; i < n; i++) m = fmax(m, x[i]);
    for (int64_t i = 0; i < n; i++) sum += y[i] = exp(x[i] - m);
    for (int64_t i = 0; i < n; i++) y[i] /= sum;
    return m + log(sum);
}

/* KL(softmax(x) || softmax(z)). */
static inline double ref_kl(const float *x, const float *z, int64_t n)
{
    double mx = -INFINITY, mz = -INFINITY, sx = 0, sz = 0, kl = 0;
    for (int64_t i = 0; i < n; i++) mx = fmax(mx, x[i]), mz = fmax(mz, z[i]);
    for (int64_t i = 0; i < n; i++) sx += exp(x[i] - mx), sz += exp(z[i] - mz);
    double offset = (mz + log(sz)) - (mx + log(sx));
    for (int64_t i = 0; i < n; i++) {
        double d = (double)x[i] - z[i] + offset;
        kl += exp(x[i] - mx) / sx * (d + expm1(-d));
    }
    return kl;
}

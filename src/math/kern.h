/* kern: the nonlinear elementwise and row-wise kernels of the forward pass, in f32 (linear ones:
 * row.h). One thread each: callers cut the work. T rows of n values, `ld` elements apart; y must
 * not overlap inputs unless stated. Results depend neither on the instruction set nor on how rows
 * are dealt out to threads. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

/* LayerNorm (Ba et al. 2016) of rows of n values, y = w (x - mean) / sqrt(var + eps) + b, var
 * dividing by n; unless centred RMSNorm (Zhang and Sennrich 2019), with 0 in place of the mean. */
struct kern_norm {
    int64_t n;
    float eps;
    bool centred;
    const float *w, *b; // (n) NULL: ones, zeros
    bool rounded;       /* to bf16: w and b when they are read, and the result (kern_bf16.h) */
    bool between;       /* if rounded: what w multiplies is rounded before, too */
};
/* y may be x. */
void kern_norm(const struct kern_norm *f, float *y, int64_t ldy, const float *x, int64_t ldx,
               int64_t T);

/* SiLU: y (n) = x / (1 + e^-x). kern_silu_mul: y = SiLU(gate) up. */
void kern_silu(float *y, const float *x, int64_t n);
void kern_silu_mul(float *y, const float *gate, const float *up, int64_t n);
/* GELU (Hendrycks and Gimpel 2016): y (n) = x (1 + erf(x / sqrt 2)) / 2, and its tanh form. */
void kern_gelu(float *y, const float *x, int64_t n);
void kern_gelu_tanh(float *y, const float *x, int64_t n);

/* Squared ReLU (So et al. 2021): y (n) = max(x, 0)^2. */
void kern_relu2(float *y, const float *x, int64_t n);

/* xIELU (Huang and Schlag 2024), its learned scalars already passed through softplus:
 *   y = a x^2 + beta x                               x > 0
 *   y = b (expm1(min(x, eps)) - x) + beta x          x <= 0 */
struct xielu {
    float a, b, beta, eps;
};
void kern_xielu(float *y, const float *x, int64_t n, const struct xielu *c);

/* y (n) *= x. */
void kern_mul(float *y, const float *x, int64_t n);
/* y (n) *= c. */
void kern_scale(float *y, float c, int64_t n);

/* One step of a softmax over a row that arrives in pieces (Milakov and Gimelshein 2018). m and l
 * are the row's maximum and sum so far; start with -infinity and 0. The scores s (n) of the piece
 * become e^(scale s - m) in [lo, hi) and 0 elsewhere; scale > 0. Returns the factor by which
 * everything accumulated from earlier pieces must be multiplied. */
float kern_softmax_step(float *s, int64_t n, int64_t lo, int64_t hi, float scale, float *m,
                        float *l);

/* The largest value of x (n), n > 0; *first = its first index (0 if all are NaN). */
float kern_max(const float *x, int64_t n, int64_t *first);
/* y (n) = e^(x - shift), within 2 ulp over the whole range. Returns the sum, in f32 over runs of
 * 512, which are added in f64. */
double kern_exp_sum(float *y, const float *x, int64_t n, float shift);

/* KL(p || q) in nats over a row of n values: logits x with probabilities p, logits z with
 * probabilities q = e_scale e; d = log p - log q = x - z + offset. Summed as p (d + e^-d - 1),
 * whose terms are never negative: accurate to f32's relative precision however small the divergence
 * is (docs/math/statistics.md). */
double kern_kl(const float *x, const float *p, const float *z, const float *e, float e_scale,
               int64_t n, float offset);

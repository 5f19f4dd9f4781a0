/* kern: the elementwise and row-wise kernels of the forward pass, in f32.
 *
 * One thread each; callers cut the work. T rows of n values with a pitch (ld) in elements. Results
 * depend neither on the instruction set nor on how rows are cut. kern_ref.h holds the same
 * functions in plain f64 for the tests. */
#pragma once
#include <stdint.h>

/* y (n) = e^x, within 2 ulp over the whole range. */
void kern_exp(float *y, const float *x, int64_t n);

/* y = w x / sqrt(mean(x^2) + eps) for each row (RMSNorm: Zhang and Sennrich 2019). w (n). y may be
 * x. */
void kern_rms_norm(float *y, int64_t ldy, const float *x, int64_t ldx, const float *w, int64_t T,
                   int64_t n, float eps);
/* y = w (x - mean) / sqrt(var + eps) + b, var over n (LayerNorm: Ba et al. 2016). w (n) may be NULL
 * (ones), b (n) may be NULL (zeros). y may be x. */
void kern_layer_norm(float *y, int64_t ldy, const float *x, int64_t ldx, const float *w,
                     const float *b, int64_t T, int64_t n, float eps);

/* y (n) = x / (1 + e^-x); and that times `up`. */
void kern_silu(float *y, const float *x, int64_t n);
void kern_silu_mul(float *y, const float *gate, const float *up, int64_t n);
/* y (n) = x (1 + erf(x / sqrt 2)) / 2, and its tanh form (Hendrycks and Gimpel 2016). */
void kern_gelu(float *y, const float *x, int64_t n);
void kern_gelu_tanh(float *y, const float *x, int64_t n);

/* xIELU (Huang and Schlag 2024) with the softplus already taken:
 *   a x^2 + beta x                               x > 0
 *   b (expm1(min(x, eps)) - x) + beta x          x <= 0 */
struct xielu {
    float a, b, beta, eps;
};
void kern_xielu(float *y, const float *x, int64_t n, const struct xielu *c);

/* y (n) *= x; y (n) += x. */
void kern_mul(float *y, const float *x, int64_t n);
void kern_add(float *y, const float *x, int64_t n);
/* Every row of y += b (n); every value of y into [-c, c]. */
void kern_add_row(float *y, int64_t ldy, const float *b, int64_t T, int64_t n);
void kern_clip(float *y, int64_t ldy, float c, int64_t T, int64_t n);

/* Rotates the first 2 half values of each head by half rotation, in place: heads stand `stride`
 * apart in rows of pitch ld; cos and sin (T, half), their row t for row t of x. */
void kern_rope(float *x, int64_t ld, int64_t heads, int64_t stride, const float *cosine,
               const float *sine, int64_t T, int64_t half);

/* A softmax that sees its row in pieces. State of a row: the running maximum m and sum l (start
 * with -infinity and 0). One step turns the piece s (n) of scores into e^(scale s - m) for [lo, hi)
 * and 0 elsewhere, and returns what everything summed before must be multiplied with. */
float kern_softmax_step(float *s, int64_t n, int64_t lo, int64_t hi, float scale, float *m,
                        float *l);
/* y (n) *= c. */
void kern_scale(float *y, float c, int64_t n);

/* Largest value of x (n > 0) and the first index that has it (0 when there are NaNs only). */
float kern_max(const float *x, int64_t n, int64_t *first);
/* y (n) = e^(x - shift); returns their sum, f32 in short runs, runs added in f64. */
double kern_exp_sum(float *y, const float *x, int64_t n, float shift);

/* KL(p || q) in nats over a row of n, from logits x with probabilities p and logits z with
 * probabilities q = e_scale e; d = log p - log q = x - z + offset. Summed as p (d + e^-d - 1),
 * whose terms are never negative: exact to f32 relative precision however small the divergence
 * (docs/math/statistics.md). */
double kern_kl(const float *x, const float *p, const float *z, const float *e, float e_scale,
               int64_t n, float offset);

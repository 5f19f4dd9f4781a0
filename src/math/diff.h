/* diff: the derivatives of the row-wise kernels, in the scalar type `real` (math/real.h).
 *
 * Each function f comes in up to four forms; dx is the tangent (directional derivative) of x:
 *   value            y = f(x)
 *   _tangent         dy, the tangent of y
 *   _adjoint         gx = d loss / dx from gy = d loss / dy
 *   _adjoint_tangent dgx, the tangent of gx; dgy is that of gy
 * Formulas: docs/math/hvp.md. One thread each: callers cut the work. Outputs do not overlap inputs
 * unless stated. T rows of n values, `ld` elements apart. */
#pragma once
#include "math/real.h"
#include <stdbool.h>
#include <stdint.h>

/* --- LayerNorm, y = w (x - mean) / sqrt(var + eps) + b; RMSNorm unless centred --- */
struct diff_norm {
    int64_t n;
    real eps;
    bool centred;
    const real *w, *b;   // (n) not NULL
    const real *dw, *db; // (n) their tangents; not NULL in the tangent forms
};
void diff_norm(const struct diff_norm *f, real *y, int64_t ldy, const real *x, int64_t ldx,
               int64_t T);
void diff_norm_tangent(const struct diff_norm *f, real *dy, int64_t ldy, const real *x,
                       const real *dx, int64_t ldx, int64_t T);
/* gx is overwritten, or added to if `add`. Adds to gw (n) and gb (n), the adjoints of w and b. */
void diff_norm_adjoint(const struct diff_norm *f, real *gx, const real *x, int64_t ldx,
                       const real *gy, int64_t ldy, int64_t T, bool add, real *gw, real *gb);
void diff_norm_adjoint_tangent(const struct diff_norm *f, real *dgx, const real *x, const real *dx,
                               int64_t ldx, const real *gy, const real *dgy, int64_t ldy, int64_t T,
                               bool add, real *dgw, real *dgb);

/* --- activations: y (n) = f(x) up, or f(x) if up is NULL (then so are dup, gup and dgup) --- */
enum diff_activation { DIFF_SILU, DIFF_GELU, DIFF_GELU_TANH, DIFF_RELU2 };
void diff_act(enum diff_activation f, real *y, const real *x, const real *up, int64_t n);
void diff_act_tangent(enum diff_activation f, real *dy, const real *x, const real *dx,
                      const real *up, const real *dup, int64_t n);
void diff_act_adjoint(enum diff_activation f, real *gx, real *gup, const real *x, const real *up,
                      const real *gy, int64_t n);
void diff_act_adjoint_tangent(enum diff_activation f, real *dgx, real *dgup, const real *x,
                              const real *dx, const real *up, const real *dup, const real *gy,
                              const real *dgy, int64_t n);

/* --- xIELU (kern.h); da and db are the tangents of a and b --- */
struct diff_xielu {
    real a, b, beta, eps;
    real da, db;
};
void diff_xielu(const struct diff_xielu *c, real *y, const real *x, int64_t n);
void diff_xielu_tangent(const struct diff_xielu *c, real *dy, const real *x, const real *dx,
                        int64_t n);
/* Adds the adjoints of a and b to g, and in the tangent form their tangents to dg. */
void diff_xielu_adjoint(const struct diff_xielu *c, real *gx, const real *x, const real *gy,
                        int64_t n, double g[2]);
void diff_xielu_adjoint_tangent(const struct diff_xielu *c, real *dgx, const real *x,
                                const real *dx, const real *gy, const real *dgy, int64_t n,
                                double g[2], double dg[2]);

/* --- a row of n attention scores: p = softmax(scale s) over [lo, hi), 0 elsewhere --- */
/* Replaces s by p. Returns log sum e^(scale s), the log_sum of the other forms. */
real diff_softmax(real *s, int64_t n, int64_t lo, int64_t hi, real scale);
/* Replaces s by p, ds by dp; also the adjoint, gp by gs, because the Jacobian is symmetric. */
void diff_softmax_tangent(real *s, real *ds, int64_t n, int64_t lo, int64_t hi, real scale,
                          real log_sum);
/* Replaces s, ds, gp, dgp by p, dp, gs, dgs. */
void diff_softmax_adjoint_tangent(real *s, real *ds, real *gp, real *dgp, int64_t n, int64_t lo,
                                  int64_t hi, real scale, real log_sum);

/* --- cross-entropy of one position with logits z (n): weight (log sum e^z - z[target]) --- */
/* Returns the loss for weight 1 and replaces z by e^(z - top), top being the largest logit; *sum =
 * their sum. */
double diff_loss(real *z, int64_t n, int64_t target, double *sum);
/* Replaces e^(z - top) by the adjoint of z, weight (softmax(z) - onehot(target)). Returns weight
 * softmax(z)[target]. */
real diff_loss_adjoint(real *z, int64_t n, int64_t target, real weight, double sum);
/* x . y, in `real` over runs of 512, which are added in f64. */
double diff_loss_dot(const real *x, const real *y, int64_t n);
/* Replaces dz (n), the tangent of z, by the tangent of the adjoint gz. p: what diff_loss_adjoint
 * returned; mean: softmax(z) . dz. */
void diff_loss_adjoint_tangent(real *dz, const real *gz, int64_t n, int64_t target, real p,
                               real mean);

/* diff: the derivatives of the row-wise kernels, in the scalar type `real` (tensor/real.h).
 *
 * Each function comes in up to four forms. With inputs x moving along x' (written dx):
 *   value            y = f(x)
 *   _tangent         dy = the rate of change of y
 *   _adjoint         gx = d loss / dx from gy = d loss / dy
 *   _adjoint_tangent dgx = the rate of change of gx, gy moving along dgy
 * Formulas: docs/math/hvp.md. One thread each; callers cut the work. No output overlaps an input
 * unless said. T rows of n values with a pitch (ld) in elements. */
#pragma once
#include "tensor/real.h"
#include <stdbool.h>
#include <stdint.h>

#define diff_norm                    REAL_NAME(diff_norm)
#define diff_norm_tangent            REAL_NAME(diff_norm_tangent)
#define diff_norm_adjoint            REAL_NAME(diff_norm_adjoint)
#define diff_norm_adjoint_tangent    REAL_NAME(diff_norm_adjoint_tangent)
#define diff_act                     REAL_NAME(diff_act)
#define diff_act_tangent             REAL_NAME(diff_act_tangent)
#define diff_act_adjoint             REAL_NAME(diff_act_adjoint)
#define diff_act_adjoint_tangent     REAL_NAME(diff_act_adjoint_tangent)
#define diff_xielu                   REAL_NAME(diff_xielu)
#define diff_xielu_tangent           REAL_NAME(diff_xielu_tangent)
#define diff_xielu_adjoint           REAL_NAME(diff_xielu_adjoint)
#define diff_xielu_adjoint_tangent   REAL_NAME(diff_xielu_adjoint_tangent)
#define diff_softmax                 REAL_NAME(diff_softmax)
#define diff_softmax_tangent         REAL_NAME(diff_softmax_tangent)
#define diff_softmax_adjoint         REAL_NAME(diff_softmax_adjoint)
#define diff_softmax_adjoint_tangent REAL_NAME(diff_softmax_adjoint_tangent)
#define diff_loss_sum                REAL_NAME(diff_loss_sum)
#define diff_loss_exp                REAL_NAME(diff_loss_exp)
#define diff_loss_dot                REAL_NAME(diff_loss_dot)
#define diff_loss_adjoint            REAL_NAME(diff_loss_adjoint)
#define diff_loss_adjoint_tangent    REAL_NAME(diff_loss_adjoint_tangent)
#define diff_rope                    REAL_NAME(diff_rope)
#define diff_add                     REAL_NAME(diff_add)
#define diff_axpy                    REAL_NAME(diff_axpy)
#define diff_add_row                 REAL_NAME(diff_add_row)
#define diff_add_columns             REAL_NAME(diff_add_columns)
#define diff_clip                    REAL_NAME(diff_clip)
#define diff_clip_mask               REAL_NAME(diff_clip_mask)

/* --- norms: y = w (x - mean) / sqrt(var + eps) + b; not centred: RMSNorm --- */
struct diff_norm {
    int64_t n;
    real eps;
    bool centred;
    const real *w, *b;   // (n) never NULL
    const real *dw, *db; // (n) their tangents, never NULL in the tangent forms
};
void diff_norm(const struct diff_norm *f, real *y, int64_t ldy, const real *x, int64_t ldx,
               int64_t T);
void diff_norm_tangent(const struct diff_norm *f, real *dy, int64_t ldy, const real *x,
                       const real *dx, int64_t ldx, int64_t T);
/* gx is overwritten, or added to when `add`; gw (n), gb (n) are added to. */
void diff_norm_adjoint(const struct diff_norm *f, real *gx, const real *x, int64_t ldx,
                       const real *gy, int64_t ldy, int64_t T, bool add, real *gw, real *gb);
void diff_norm_adjoint_tangent(const struct diff_norm *f, real *dgx, const real *x, const real *dx,
                               int64_t ldx, const real *gy, const real *dgy, int64_t ldy, int64_t T,
                               bool add, real *dgw, real *dgb);

/* --- activations: y (n) = f(x), or f(x) up when up is given (up, dup: both or neither) --- */
enum diff_activation { DIFF_SILU, DIFF_GELU, DIFF_GELU_TANH };
void diff_act(enum diff_activation f, real *y, const real *x, const real *up, int64_t n);
void diff_act_tangent(enum diff_activation f, real *dy, const real *x, const real *dx,
                      const real *up, const real *dup, int64_t n);
void diff_act_adjoint(enum diff_activation f, real *gx, real *gup, const real *x, const real *up,
                      const real *gy, int64_t n);
void diff_act_adjoint_tangent(enum diff_activation f, real *dgx, real *dgup, const real *x,
                              const real *dx, const real *up, const real *dup, const real *gy,
                              const real *dgy, int64_t n);

/* --- xIELU (kern.h); a and b move along da and db --- */
struct diff_xielu {
    real a, b, beta, eps;
    real da, db;
};
void diff_xielu(const struct diff_xielu *c, real *y, const real *x, int64_t n);
void diff_xielu_tangent(const struct diff_xielu *c, real *dy, const real *x, const real *dx,
                        int64_t n);
/* g (2) += the adjoints of a and b. */
void diff_xielu_adjoint(const struct diff_xielu *c, real *gx, const real *x, const real *gy,
                        int64_t n, double g[2]);
void diff_xielu_adjoint_tangent(const struct diff_xielu *c, real *dgx, const real *x,
                                const real *dx, const real *gy, const real *dgy, int64_t n,
                                double g[2], double dg[2]);

/* --- a row of attention: p = softmax(scale s) over [lo, hi), 0 elsewhere in (n) --- */
/* s becomes p; returns log sum e^(scale s). */
real diff_softmax(real *s, int64_t n, int64_t lo, int64_t hi, real scale);
/* s becomes p, ds becomes dp; log_sum as returned above. */
void diff_softmax_tangent(real *s, real *ds, int64_t n, int64_t lo, int64_t hi, real scale,
                          real log_sum);
/* s becomes p, gp becomes gs. */
void diff_softmax_adjoint(real *s, real *gp, int64_t n, int64_t lo, int64_t hi, real scale,
                          real log_sum);
/* s, ds, gp, dgp become p, dp, gs, dgs. */
void diff_softmax_adjoint_tangent(real *s, real *ds, real *gp, real *dgp, int64_t n, int64_t lo,
                                  int64_t hi, real scale, real log_sum);

/* --- cross-entropy of one position, weight (log sum e^z - z[target]), its logits in slices of the
 * vocabulary: first each slice's part of the sums, then each slice's adjoints --- */
struct diff_loss {
    real top;   /* the largest logit so far; -infinity before the first slice */
    double sum; /* of e^(z - top); 0 before the first slice */
};
/* z (n) becomes e^(z - s->top), s with this slice in it. Returns what sums of earlier slices over
 * e^(z - top) must be multiplied by. */
double diff_loss_sum(struct diff_loss *s, real *z, int64_t n);
/* The same of logits made again, top being that of all slices. */
void diff_loss_exp(real *z, int64_t n, real top);
/* z (n) = e^(z - top) becomes the adjoint, weight (softmax(z) - e_target), with the sum of all
 * slices; target -1: in another slice. Returns weight softmax(z)[target], or 0. */
real diff_loss_adjoint(real *z, int64_t n, int64_t target, real weight, double sum);
/* x.y */
double diff_loss_dot(const real *x, const real *y, int64_t n);
/* dz (n) becomes the tangent of the adjoint gz; p as diff_loss_adjoint returned it, mean: of dz
 * over softmax(z). */
void diff_loss_adjoint_tangent(real *dz, const real *gz, int64_t n, int64_t target, real p,
                               real mean);

/* --- linear pieces: their tangent is the same function --- */
/* kern_rope's rotation; backward: its transpose, for adjoints. */
void diff_rope(real *x, int64_t ld, int64_t heads, int64_t stride, const real *cosine,
               const real *sine, int64_t T, int64_t half, bool backward);
void diff_add(real *y, const real *a, const real *b, int64_t n); /* y = a + b; y may be a or b */
void diff_axpy(real *y, real c, const real *x, int64_t n);       /* y += c x */
void diff_add_row(real *y, int64_t ldy, const real *b, int64_t T, int64_t n);
/* y (n) += the sum of the rows of x (T, n). */
void diff_add_columns(real *y, const real *x, int64_t ldx, int64_t T, int64_t n);
/* Every value of y into [-c, c]; y = 0 where the clipped x stands at a bound. */
void diff_clip(real *y, int64_t ldy, real c, int64_t T, int64_t n);
void diff_clip_mask(real *y, const real *x, int64_t ld, real c, int64_t T, int64_t n);

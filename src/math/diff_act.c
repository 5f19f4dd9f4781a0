/* Derivatives of the activations: f, f' and f'' of a short run of values, then the product rule. */
#include "math/diff.h"
#include "math/diff_lane.h"

enum { RUN = 64 };

struct run {
    real f[RUN], f1[RUN], f2[RUN];
};

/* x s(x): f' = s + x s', f'' = 2 s' + x s'', with s' = s (1 - s), s'' = s' (1 - 2 s). */
KERN_LANE void silu(struct run *o, const real *x, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        real v = x[i], s = 1 / (1 + real_exp(-v)), s1 = s * (1 - s);
        o->f[i] = v * s;
        o->f1[i] = s + v * s1;
        o->f2[i] = s1 * (2 + v * (1 - 2 * s));
    }
}

/* x Phi(x): f' = Phi + x phi, f'' = (2 - x^2) phi. */
KERN_LANE void gelu(struct run *o, const real *x, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        real v = x[i], c = real_normal_cdf(v);
        real p = REAL(0.39894228040143267794) * real_exp(REAL(-0.5) * v * v);
        o->f[i] = v * c;
        o->f1[i] = c + v * p;
        o->f2[i] = (2 - v * v) * p;
    }
}

/* x s(2u), u = k (x + a x^3): f' = s + x t, f'' = 2 t + x t', with t = ds/dx = 2 u' s (1 - s) and
 * t' = 2 u'' s (1 - s) + 2 u' t (1 - 2 s). */
KERN_LANE void gelu_tanh(struct run *o, const real *x, int64_t n)
{
    const real k = REAL(0.79788456080286535588), a = REAL(0.044715);
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        real v = x[i], u = k * (v + a * v * v * v), u1 = k * (1 + 3 * a * v * v);
        real s = 1 / (1 + real_exp(-2 * u)), q = s * (1 - s), t = 2 * u1 * q;
        o->f[i] = v * s;
        o->f1[i] = s + v * t;
        o->f2[i] = 2 * t + v * (12 * k * a * v * q + 2 * u1 * t * (1 - 2 * s));
    }
}

/* x^2 where x > 0: f' = 2 x, f'' = 2. */
KERN_LANE void relu2(struct run *o, const real *x, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        real v = x[i] > 0 ? x[i] : 0;
        o->f[i] = v * v;
        o->f1[i] = 2 * v;
        o->f2[i] = x[i] > 0 ? 2 : 0;
    }
}

KERN_LANE void derive(enum diff_activation f, struct run *o, const real *x, int64_t n)
{
    switch (f) {
    case DIFF_SILU:
        silu(o, x, n);
        break;
    case DIFF_GELU:
        gelu(o, x, n);
        break;
    case DIFF_GELU_TANH:
        gelu_tanh(o, x, n);
        break;
    case DIFF_RELU2:
        relu2(o, x, n);
        break;
    }
}

KERNEL(void, diff_act, (enum diff_activation f, real *y, const real *x, const real *up, int64_t n),
       (f, y, x, up, n))
{
    struct run o;
    for (int64_t at = 0; at < n; at += RUN, x += RUN, y += RUN) {
        int64_t m = n - at < RUN ? n - at : RUN;
        derive(f, &o, x, m);
        if (up)
#pragma omp simd
            for (int64_t i = 0; i < m; i++) y[i] = o.f[i] * up[at + i];
        else
#pragma omp simd
            for (int64_t i = 0; i < m; i++) y[i] = o.f[i];
    }
}

KERNEL(void, diff_act_tangent,
       (enum diff_activation f, real *dy, const real *x, const real *dx, const real *up,
        const real *dup, int64_t n),
       (f, dy, x, dx, up, dup, n))
{
    struct run o;
    for (int64_t at = 0; at < n; at += RUN, x += RUN, dx += RUN, dy += RUN) {
        int64_t m = n - at < RUN ? n - at : RUN;
        derive(f, &o, x, m);
        if (up)
#pragma omp simd
            for (int64_t i = 0; i < m; i++)
                dy[i] = o.f1[i] * dx[i] * up[at + i] + o.f[i] * dup[at + i];
        else
#pragma omp simd
            for (int64_t i = 0; i < m; i++) dy[i] = o.f1[i] * dx[i];
    }
}

KERNEL(void, diff_act_adjoint,
       (enum diff_activation f, real *gx, real *gup, const real *x, const real *up, const real *gy,
        int64_t n),
       (f, gx, gup, x, up, gy, n))
{
    struct run o;
    for (int64_t at = 0; at < n; at += RUN, x += RUN, gx += RUN, gy += RUN) {
        int64_t m = n - at < RUN ? n - at : RUN;
        derive(f, &o, x, m);
        if (up)
#pragma omp simd
            for (int64_t i = 0; i < m; i++) {
                gx[i] = gy[i] * up[at + i] * o.f1[i];
                gup[at + i] = gy[i] * o.f[i];
            }
        else
#pragma omp simd
            for (int64_t i = 0; i < m; i++) gx[i] = gy[i] * o.f1[i];
    }
}

KERNEL(void, diff_act_adjoint_tangent,
       (enum diff_activation f, real *dgx, real *dgup, const real *x, const real *dx,
        const real *up, const real *dup, const real *gy, const real *dgy, int64_t n),
       (f, dgx, dgup, x, dx, up, dup, gy, dgy, n))
{
    struct run o;
    for (int64_t at = 0; at < n;
         at += RUN, x += RUN, dx += RUN, dgx += RUN, gy += RUN, dgy += RUN) {
        int64_t m = n - at < RUN ? n - at : RUN;
        derive(f, &o, x, m);
        if (up)
#pragma omp simd
            for (int64_t i = 0; i < m; i++) {
                real u = up[at + i], du = dup[at + i], d1 = o.f1[i] * dx[i];
                dgx[i] = (dgy[i] * u + gy[i] * du) * o.f1[i] + gy[i] * u * (o.f2[i] * dx[i]);
                dgup[at + i] = dgy[i] * o.f[i] + gy[i] * d1;
            }
        else
#pragma omp simd
            for (int64_t i = 0; i < m; i++) dgx[i] = dgy[i] * o.f1[i] + gy[i] * o.f2[i] * dx[i];
    }
}

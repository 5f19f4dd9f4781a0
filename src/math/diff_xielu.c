/* Derivatives of xIELU in x and in its coefficients. f = a A(x) + b B(x) + beta x with A = x^2 for
 * x > 0, B = expm1(min(x, eps)) - x for x <= 0, each 0 elsewhere. */
#include "math/diff.h"
#include "math/diff_lane.h"

struct parts {
    real A, B, A1, B1, f1, f2;
};

KERN_LANE struct parts parts_of(const struct diff_xielu *c, real x)
{
    real low = x < c->eps ? x : c->eps, m = real_expm1_negative(low);
    real slope = x < c->eps ? m : -1, curve = x < c->eps ? m + 1 : 0; /* B' = e^x - 1, B'' = e^x */
    struct parts p;
    p.A = x > 0 ? x * x : 0;
    p.A1 = x > 0 ? 2 * x : 0;
    p.B = x > 0 ? 0 : m - x;
    p.B1 = x > 0 ? 0 : slope;
    p.f1 = c->a * p.A1 + c->b * p.B1 + c->beta;
    p.f2 = x > 0 ? 2 * c->a : c->b * curve;
    return p;
}

KERNEL(void, diff_xielu, (const struct diff_xielu *c, real *y, const real *x, int64_t n),
       (c, y, x, n))
{
    const struct diff_xielu k = *c;
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        struct parts p = parts_of(&k, x[i]);
        y[i] = k.a * p.A + k.b * p.B + k.beta * x[i];
    }
}

KERNEL(void, diff_xielu_tangent,
       (const struct diff_xielu *c, real *dy, const real *x, const real *dx, int64_t n),
       (c, dy, x, dx, n))
{
    const struct diff_xielu k = *c;
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        struct parts p = parts_of(&k, x[i]);
        dy[i] = p.f1 * dx[i] + k.da * p.A + k.db * p.B;
    }
}

KERNEL(void, diff_xielu_adjoint,
       (const struct diff_xielu *c, real *gx, const real *x, const real *gy, int64_t n,
        double g[2]),
       (c, gx, x, gy, n, g))
{
    const struct diff_xielu k = *c;
    double ga = 0, gb = 0;
    for (int64_t i = 0; i < n; i++) {
        struct parts p = parts_of(&k, x[i]);
        gx[i] = gy[i] * p.f1;
        ga += (double)gy[i] * p.A;
        gb += (double)gy[i] * p.B;
    }
    g[0] += ga, g[1] += gb;
}

KERNEL(void, diff_xielu_adjoint_tangent,
       (const struct diff_xielu *c, real *dgx, const real *x, const real *dx, const real *gy,
        const real *dgy, int64_t n, double g[2], double dg[2]),
       (c, dgx, x, dx, gy, dgy, n, g, dg))
{
    const struct diff_xielu k = *c;
    double ga = 0, gb = 0, dga = 0, dgb = 0;
    for (int64_t i = 0; i < n; i++) {
        struct parts p = parts_of(&k, x[i]);
        dgx[i] = dgy[i] * p.f1 + gy[i] * (p.f2 * dx[i] + p.A1 * k.da + p.B1 * k.db);
        ga += (double)gy[i] * p.A;
        gb += (double)gy[i] * p.B;
        dga += (double)dgy[i] * p.A + (double)gy[i] * p.A1 * dx[i];
        dgb += (double)dgy[i] * p.B + (double)gy[i] * p.B1 * dx[i];
    }
    g[0] += ga, g[1] += gb, dg[0] += dga, dg[1] += dgb;
}

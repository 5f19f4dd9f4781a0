/* Derivatives of the softmaxes. p = softmax(s): dp = p (ds - <p, ds>), gs = p (gp - <p, gp>), and
 * the tangent of the latter by the product rule. */
#include "math/diff.h"
#include "math/diff_lane.h"

KERN_LANE void outside(real *s, int64_t n, int64_t lo, int64_t hi)
{
    memset(s, 0, (size_t)lo * sizeof *s);
    memset(s + hi, 0, (size_t)(n - hi) * sizeof *s);
}

/* The probability of key i, from its score. */
#define PROBABILITY(i) (s[i] = real_exp(s[i] * scale - log_sum))

KERNEL(real, diff_softmax, (real * s, int64_t n, int64_t lo, int64_t hi, real scale),
       (s, n, lo, hi, scale))
{
    const real log_sum = lane_largest(s + lo, hi - lo) * scale; /* but for the sum; scale > 0 */
    real sum;
    REAL_SUM(sum, i, lo, hi, PROBABILITY(i));
    const real c = 1 / sum;
#pragma omp simd
    for (int64_t i = lo; i < hi; i++) s[i] *= c;
    outside(s, n, lo, hi);
    return log_sum + (real)log((double)sum);
}

KERNEL(void, diff_softmax_tangent,
       (real * s, real *ds, int64_t n, int64_t lo, int64_t hi, real scale, real log_sum),
       (s, ds, n, lo, hi, scale, log_sum))
{
    real mean;
    REAL_SUM(mean, i, lo, hi, PROBABILITY(i) * ds[i]);
#pragma omp simd
    for (int64_t i = lo; i < hi; i++) ds[i] = scale * s[i] * (ds[i] - mean);
    outside(s, n, lo, hi);
    outside(ds, n, lo, hi);
}

KERNEL(void, diff_softmax_adjoint_tangent,
       (real * s, real *ds, real *gp, real *dgp, int64_t n, int64_t lo, int64_t hi, real scale,
        real log_sum),
       (s, ds, gp, dgp, n, lo, hi, scale, log_sum))
{
    real g, dg;
    diff_softmax_tangent(s, ds, n, lo, hi, scale, log_sum);
    REAL_SUM(g, i, lo, hi, s[i] * gp[i]);
    REAL_SUM(dg, i, lo, hi, ds[i] * gp[i] + s[i] * dgp[i]);
#pragma omp simd
    for (int64_t i = lo; i < hi; i++) {
        real gap = gp[i] - g;
        gp[i] = scale * s[i] * gap;
        dgp[i] = scale * (ds[i] * gap + s[i] * (dgp[i] - dg));
    }
    outside(gp, n, lo, hi);
    outside(dgp, n, lo, hi);
}

/* --- the loss of one position --- */

KERNEL(double, diff_loss, (real * z, int64_t n, int64_t target, double *sum), (z, n, target, sum))
{
    const double at_target = (double)z[target];
    const real top = lane_largest(z, n);
    LONG_SUM(*sum, i, n, z[i] = real_exp(z[i] - top));
    return (double)top + log(*sum) - at_target;
}

KERNEL(real, diff_loss_adjoint, (real * z, int64_t n, int64_t target, real weight, double sum),
       (z, n, target, weight, sum))
{
    const real c = (real)((double)weight / sum);
#pragma omp simd
    for (int64_t i = 0; i < n; i++) z[i] *= c;
    const real p = z[target];
    z[target] -= weight;
    return p;
}

KERNEL(double, diff_loss_dot, (const real *x, const real *y, int64_t n), (x, y, n))
{
    double sum;
    LONG_SUM(sum, i, n, x[i] * y[i]);
    return sum;
}

KERNEL(void, diff_loss_adjoint_tangent,
       (real * dz, const real *gz, int64_t n, int64_t target, real p, real mean),
       (dz, gz, n, target, p, mean))
{
    const real at_target = p * (dz[target] - mean);
#pragma omp simd
    for (int64_t i = 0; i < n; i++) dz[i] = gz[i] * (dz[i] - mean);
    dz[target] = at_target;
}

/* The loss of a position and its derivatives, against direct sums. REAL: f32 f64 */
#include "math/diff.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { N = 1000, TARGET = 640 };
static const double weight = 0.125;

/* Logits whose maximum is early, late or at the target, far above the others or not; their
 * tangents. */
static void fill(int which, real *z, real *dz)
{
    for (int i = 0; i < N; i++) {
        double slope = which == 0 ? -0.3 : which == 1 ? 0.3 : 0;
        z[i] = (real)(slope * i + 9 * sin(i * i));
        dz[i] = (real)(cos(3 * i) + 0.5);
    }
    if (which == 3) z[TARGET] = 200;
    if (which == 4) z[0] = 3000; /* e^-3000 underflows to zero */
}

struct answer {
    double loss, mean, gz[N], dgz[N];
};

static void directly(const real *z, const real *dz, struct answer *out)
{
    double top = -INFINITY, sum = 0;
    for (int i = 0; i < N; i++) top = fmax(top, (double)z[i]);
    for (int i = 0; i < N; i++) sum += exp((double)z[i] - top);
    *out = (struct answer){.loss = top + log(sum) - (double)z[TARGET]};
    for (int i = 0; i < N; i++) out->mean += exp((double)z[i] - top) / sum * (double)dz[i];
    for (int i = 0; i < N; i++) {
        double p = weight * exp((double)z[i] - top) / sum;
        out->gz[i] = p - (i == TARGET ? weight : 0);
        out->dgz[i] = p * ((double)dz[i] - out->mean);
    }
}

static void by_kernels(const real *z, const real *dz, struct answer *out)
{
    real a[N], b[N];
    double sum;
    memcpy(a, z, sizeof a);
    memcpy(b, dz, sizeof b);
    out->loss = diff_loss(a, N, TARGET, &sum);
    out->mean = diff_loss_dot(a, b, N) / sum;
    const real p = diff_loss_adjoint(a, N, TARGET, (real)weight, sum);
    diff_loss_adjoint_tangent(b, a, N, TARGET, p, (real)out->mean);
    for (int i = 0; i < N; i++) out->gz[i] = (double)a[i], out->dgz[i] = (double)b[i];
}

static void near(double x, double y, double scale, const char *what, int which)
{
    /* f32: logits of hundreds have a resolution of 3e-5 */
    double bound = sizeof(real) == 8 ? 1e-13 : 4e-5;
    if (!(fabs(x - y) <= bound * scale))
        fail_msg("case %d: %s %.12g, expected %.12g", which, what, x, y);
}

static void the_kernels_give_loss_and_derivatives(void **state)
{
    (void)state;
    static struct answer want, got;
    real z[N], dz[N];
    for (int which = 0; which < 5; which++) {
        fill(which, z, dz);
        directly(z, dz, &want);
        by_kernels(z, dz, &got);
        near(got.loss, want.loss, fmax(1, want.loss), "loss", which);
        near(got.mean, want.mean, 1, "mean", which);
        for (int i = 0; i < N; i++) {
            near(got.gz[i], want.gz[i], weight, "adjoint", which);
            near(got.dgz[i], want.dgz[i], weight, "its tangent", which);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_kernels_give_loss_and_derivatives)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

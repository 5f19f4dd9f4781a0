/* Power iteration: PyHessian's rule step by step, the rule on the residual, warm starts, failures.
 */
#include "curvature/power.h"
#include "curvature/vector.h"
#include "spectral.h"

enum { N = 200 };

/* One eigenvalue beyond the others, negative. */
static void make(struct spectral *s, double top, double next)
{
    spectral_init(s, N, 10, 1);
    for (int64_t i = 0; i < N; i++) s->value[i] = next * cos((double)i * 3.0 / N);
    s->value[17] = top;
}

static void stops_at_the_residual(void **state)
{
    (void)state;
    struct spectral s;
    float v[N];
    make(&s, -5, 4);
    struct power_options o = {POWER_RESIDUAL, 1e-4, 1000, 3, NULL, NULL};
    struct power_result r;
    double norm;
    assert_int_equal(power_iterate(&s.op, &o, v, &r, NULL), OK);
    double residual = spectral_residual(&s, r.top.value, v, &norm);
    assert_true(r.top.converged && r.iterations == s.products && r.iterations < 100);
    assert_true(r.top.residual <= 1e-4 * 5 && fabs(r.top.residual - residual) < 3e-6);
    assert_true(fabs(norm - 1) < 1e-6);
    /* The error of a Rayleigh quotient is at most residual² / gap. */
    assert_true(fabs(r.top.value + 5) < residual * residual / 1 + 1e-6);
    spectral_free(&s);
}

/* The loop of PyHessian's eigenvalues() in f64. */
static double pyhessian(struct spectral *s, uint64_t stream, double tolerance, int64_t cap,
                        int64_t *iterations)
{
    float z[N];
    double v[N], old = 0, norm = 0;
    rng_normals(stream, 0, N, z);
    for (int i = 0; i < N; i++) norm += (double)z[i] * z[i];
    for (int i = 0; i < N; i++) v[i] = z[i] / (sqrt(norm) + 1e-6);
    for (*iterations = 1; *iterations <= cap; ++*iterations) {
        double value = 0;
        norm = 0;
        for (int i = 0; i < N; i++) norm += v[i] * v[i];
        for (int i = 0; i < N; i++) s->x[i] = v[i] /= sqrt(norm) + 1e-6;
        spectral_product(s);
        norm = 0;
        for (int i = 0; i < N; i++) {
            value += v[i] * s->x[i];
            norm += s->x[i] * s->x[i];
        }
        for (int i = 0; i < N; i++) v[i] = s->x[i] / (sqrt(norm) + 1e-6);
        if (*iterations > 1 && fabs(old - value) / (fabs(old) + 1e-6) < tolerance) return old;
        old = value;
    }
    --*iterations;
    return old;
}

static void stops_where_pyhessian_does(void **state)
{
    (void)state;
    struct spectral s;
    float v[N];
    struct power_result r;
    /* Tiny eigenvalues too, where the guard of 1e-6 matters. */
    const double scales[] = {1, 1e-3, 1e-6};
    for (uint64_t stream = 0; stream < 12; stream++) {
        int64_t iterations, cap = stream == 3 ? 4 : 100;
        make(&s, 5 * scales[stream % 3], (stream % 2 ? 4.5 : -3) * scales[stream % 3]);
        double want = pyhessian(&s, stream, 1e-3, cap, &iterations), norm;
        struct power_options o = {POWER_PYHESSIAN, 1e-3, cap, stream, NULL, NULL};
        assert_int_equal(power_iterate(&s.op, &o, v, &r, NULL), OK);
        assert_int_equal(r.iterations, iterations);
        assert_int_equal(r.top.converged, r.top.residual <= 1e-3 * fabs(r.top.value));
        assert_true(fabs(r.top.value - want) < 3e-6 * fabs(want));
        double residual = spectral_residual(&s, r.top.value, v, &norm);
        assert_true(fabs(r.top.residual - residual) < 3e-6 * 5 * scales[stream % 3]);
        spectral_free(&s);
    }
}

/* PyHessian's rule stops far from the eigenvalue when the spectrum is crowded; the residual shows
 * it, and it does not count as converged. */
static void the_residual_shows_a_crowded_spectrum(void **state)
{
    (void)state;
    struct spectral s;
    float v[N];
    struct power_result r;
    spectral_init(&s, N, 4, 1);
    for (int64_t i = 0; i < N; i++) s.value[i] = 1 - 0.002 * (double)i;
    struct power_options o = {POWER_PYHESSIAN, 1e-3, 100, 0, NULL, NULL};
    assert_int_equal(power_iterate(&s.op, &o, v, &r, NULL), OK);
    assert_true(r.iterations < 100 && 1 - r.top.value > 5e-3 && r.top.residual > 0.01);
    assert_false(r.top.converged);
    o.tolerance = 0.1;
    assert_int_equal(power_iterate(&s.op, &o, v, &r, NULL), OK);
    assert_int_equal(r.top.converged, r.top.residual <= 0.1 * r.top.value);
    spectral_free(&s);
}

static void a_warm_start_takes_fewer_products(void **state)
{
    (void)state;
    struct spectral s;
    float v[N], again[N];
    struct power_result cold, warm;
    make(&s, 5, 4.5);
    struct power_options o = {POWER_RESIDUAL, 1e-3, 1000, 3, NULL, NULL};
    assert_int_equal(power_iterate(&s.op, &o, v, &cold, NULL), OK);
    o.start = v;
    assert_int_equal(power_iterate(&s.op, &o, again, &warm, NULL), OK);
    assert_true(warm.iterations < cold.iterations && fabs(warm.top.value - 5) < 1e-4);
    /* Started from another eigenvector, it still finds the top one. */
    memset(s.x, 0, N * sizeof *s.x);
    s.x[60] = 1;
    spectral_reflect(&s, 1);
    spectral_reflect(&s, 0);
    for (int i = 0; i < N; i++) v[i] = (float)s.x[i];
    assert_int_equal(power_iterate(&s.op, &o, again, &warm, NULL), OK);
    assert_true(fabs(warm.top.value - 5) < 1e-4);
    memset(v, 0, sizeof v);
    assert_int_equal(power_iterate(&s.op, &o, again, &warm, NULL), ERR_NUMERIC);
    spectral_free(&s);
}

static void faults_end_the_iteration(void **state)
{
    (void)state;
    struct spectral s;
    float v[N];
    struct power_result r;
    struct err e = {0};
    make(&s, 5, 4.5);
    struct power_options o = {POWER_RESIDUAL, 1e-9, 7, 3, NULL, NULL};
    assert_int_equal(power_iterate(&s.op, &o, v, &r, NULL), OK);
    assert_true(!r.top.converged && r.iterations == 7);
    s.fail_at = s.products + 3;
    assert_int_equal(power_iterate(&s.op, &o, v, &r, &e), ERR_NUMERIC);
    assert_non_null(strstr(e.text, "product 3"));
    s.fail_at = s.products + 2;
    s.failure = ERR_IO;
    assert_int_equal(power_iterate(&s.op, &o, v, &r, NULL), ERR_IO);
    o.products = 0;
    assert_int_equal(power_iterate(&s.op, &o, v, &r, NULL), ERR_USAGE);
    o.products = 5;
    s.failure = OK;
    s.fail_at = 0;
    memset(s.value, 0, N * sizeof *s.value);
    for (int stop = 0; stop < 2; stop++) {
        o.stop = stop ? POWER_RESIDUAL : POWER_PYHESSIAN;
        assert_int_equal(power_iterate(&s.op, &o, v, &r, NULL), OK);
        assert_true(r.top.value == 0 && r.top.residual == 0 && r.top.converged);
    }
    spectral_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stops_at_the_residual),
        cmocka_unit_test(stops_where_pyhessian_does),
        cmocka_unit_test(the_residual_shows_a_crowded_spectrum),
        cmocka_unit_test(a_warm_start_takes_fewer_products),
        cmocka_unit_test(faults_end_the_iteration),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Spectral densities: moments of the start vector's spectral measure, all eigenvalues when there
 * are enough steps, and the same density without stored vectors. */
#include "curvature/density.h"
#include "spectral.h"

enum { N = 300 };

static void make(struct spectral *s)
{
    spectral_init(s, N, 90, 1);
    for (int64_t i = 0; i < N; i++) s->value[i] = 0.5 * sin((double)i);
    s->value[5] = 3;
    s->value[6] = -2;
}

static double moment(const struct density *d, int64_t run, int power)
{
    double sum = 0;
    for (int64_t i = 0; i < d->count[run]; i++)
        sum += d->weight[run * d->steps + i] * pow(d->node[run * d->steps + i], power);
    return sum;
}

/* v'A^p v of the run's start vector. */
static double moment_exact(struct spectral *s, uint64_t stream, int power)
{
    float *v = malloc((size_t)s->op.space.n * sizeof *v);
    double sum = 0;
    assert_non_null(v);
    rng_signs(stream, 0, s->op.space.n, v);
    for (int64_t i = 0; i < s->op.space.n; i++) s->x[i] = v[i];
    for (int p = 0; p < power; p++) spectral_product(s);
    for (int64_t i = 0; i < s->op.space.n; i++) sum += v[i] * s->x[i] / (double)s->op.space.n;
    free(v);
    return sum;
}

/* M steps integrate moments up to 2 M - 1 exactly (Gauss quadrature). */
static void moments_are_exact(void **state)
{
    (void)state;
    struct spectral s;
    make(&s);
    for (int64_t steps = 1; steps <= 12; steps += 3)
        for (int stored = 0; stored < 2; stored++) {
            struct density d;
            struct density_options o = {3, steps, 4, stored ? 0 : 4 * 3 * N};
            assert_int_equal(density_estimate(&s.op, &o, &d, NULL), OK);
            assert_true(d.orthogonal == (stored || steps + 1 <= 3) && d.products == 3 * steps);
            for (int64_t r = 0; r < 3; r++)
                for (int p = 0; p < 2 * steps; p++) {
                    double want = moment_exact(&s, rng_stream(4, (uint64_t)r), p);
                    assert_true(fabs(moment(&d, r, p) - want) < 2e-6 * pow(3, p));
                }
            density_free(&d);
        }
    spectral_free(&s);
}

/* Enough steps: the nodes are the eigenvalues; the weights are the start vector's squared
 * components. */
static void nodes_are_the_eigenvalues(void **state)
{
    (void)state;
    enum { SMALL = 12 };
    struct spectral s;
    struct density d;
    struct density_options o = {2, 40, 1, 0};
    spectral_init(&s, SMALL, 91, 1);
    for (int i = 0; i < SMALL; i++) s.value[i] = i - 4;
    assert_int_equal(density_estimate(&s.op, &o, &d, NULL), OK);
    for (int r = 0; r < 2; r++) {
        assert_true(d.count[r] == SMALL);
        for (int i = 0; i < SMALL; i++) assert_true(fabs(d.node[r * 40 + i] - (i - 4)) < 1e-5);
        for (int i = SMALL; i < 40; i++)
            assert_true(isnan(d.node[r * 40 + i]) && isnan(d.weight[r * 40 + i]));
    }
    density_free(&d);
    /* Three distinct eigenvalues: three nodes. */
    for (int i = 0; i < SMALL; i++) s.value[i] = i % 3;
    assert_int_equal(density_estimate(&s.op, &o, &d, NULL), OK);
    assert_true(d.count[0] == 3 && d.products == 6 && fabs(d.node[2] - 2) < 1e-6);
    assert_true(fabs(moment(&d, 0, 0) - 1) < 1e-12);
    density_free(&d);
    spectral_free(&s);
}

/* A smooth step at a quarter; a quadrature of a discontinuous step could be wrong by a whole node.
 */
static double step(double x)
{
    return 1 / (1 + exp((x - 0.25) / 0.05));
}

/* The fraction of the spectrum below a cut and at the top, from 60 steps: correct within the noise
 * of 16 probes, and the same without stored vectors, although converged nodes then appear several
 * times. */
static void shares_do_not_need_stored_vectors(void **state)
{
    (void)state;
    struct spectral s;
    double share[2] = {0}, top[2] = {0}, want = 0;
    int64_t copies[2] = {0};
    make(&s);
    for (int64_t i = 0; i < N; i++) want += step(s.value[i]) / N;
    for (int stored = 0; stored < 2; stored++) {
        struct density d;
        struct density_options o = {16, 60, 8, stored ? 0 : 4 * 3 * N};
        assert_int_equal(density_estimate(&s.op, &o, &d, NULL), OK);
        assert_true(d.orthogonal == stored);
        for (int64_t i = 0; i < 16 * 60; i++) {
            if (isnan(d.node[i])) continue;
            share[stored] += step(d.node[i]) * d.weight[i] / 16;
            top[stored] += d.node[i] > 2.99 ? d.weight[i] / 16 : 0;
            copies[stored] += d.node[i] > 2.99;
        }
        density_free(&d);
    }
    assert_true(copies[1] == 16 && copies[0] > 16);
    assert_true(fabs(share[1] - want) < 5 * sqrt(2 * want / (16 * N)));
    assert_true(fabs(share[0] - share[1]) < 1e-5);
    assert_true(fabs(top[1] - 1.0 / N) < 5 * sqrt(2.0 / 16) / N && fabs(top[0] - top[1]) < 1e-6);
    spectral_free(&s);
}

static void faults_end_the_estimate(void **state)
{
    (void)state;
    struct spectral s;
    struct density d;
    struct density_options o = {2, 10, 0, 0};
    make(&s);
    s.fail_at = 13;
    assert_int_equal(density_estimate(&s.op, &o, &d, NULL), ERR_NUMERIC);
    s.fail_at = s.products + 4;
    s.failure = ERR_IO;
    assert_int_equal(density_estimate(&s.op, &o, &d, NULL), ERR_IO);
    o.steps = 0;
    assert_int_equal(density_estimate(&s.op, &o, &d, NULL), ERR_USAGE);
    spectral_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(moments_are_exact),
        cmocka_unit_test(nodes_are_the_eigenvalues),
        cmocka_unit_test(shares_do_not_need_stored_vectors),
        cmocka_unit_test(faults_end_the_estimate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

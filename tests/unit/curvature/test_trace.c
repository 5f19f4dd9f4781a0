/* Traces: exact where they must be, elsewhere correct within their standard errors, split into
 * parts. */
#include "curvature/trace.h"
#include "spectral.h"

enum { N = 120, PARTS = 4 };

static const int64_t offset[PARTS + 1] = {0, 7, 50, 50, N};

static struct trace_options options(int64_t probes)
{
    return (struct trace_options){.probes = probes, .together = 3, .parts = {PARTS, offset}};
}

/* A few large eigenvalues of both signs and a small bulk. */
static double make(struct spectral *s, int64_t large)
{
    double trace = 0;
    spectral_init(s, N, 70, 1);
    for (int64_t i = 0; i < N; i++) {
        s->value[i] = i < large ? 20.0 - 7 * (double)i : 0.1 * sin((double)i);
        trace += s->value[i];
    }
    return trace;
}

static void part_traces(const struct spectral *s, double part[PARTS])
{
    double diagonal[N];
    spectral_diagonal(s, diagonal);
    for (int t = 0; t < PARTS; t++) {
        part[t] = 0;
        for (int64_t i = offset[t]; i < offset[t + 1]; i++) part[t] += diagonal[i];
    }
}

static void check_sums(const struct trace_estimate *r)
{
    double sum = 0;
    for (int64_t t = 0; t < r->n_parts; t++) sum += r->part[t];
    assert_true(fabs(sum - r->mean) < 1e-12 * (1 + fabs(r->mean)));
}

/* For a diagonal matrix every probe gives the exact trace. */
static void test_diagonal_is_exact(void **state)
{
    (void)state;
    struct spectral s;
    struct trace_estimate r;
    struct trace_options o = options(5);
    spectral_init(&s, N, 0, 0);
    for (int64_t i = 0; i < N; i++) s.value[i] = (double)(i % 5) - 1;
    assert_int_equal(trace_estimate(&s.op, &o, &r, NULL), OK);
    assert_true(r.mean == 120 && r.error == 0 && r.probes == 5 && r.products == 5 && r.converged);
    double want[PARTS];
    part_traces(&s, want);
    for (int t = 0; t < PARTS; t++) assert_true(r.part[t] == want[t] && r.part_error[t] == 0);
    trace_estimate_free(&r);
    spectral_free(&s);
}

/* Over many seeds: (mean - trace) / error behaves as a t variate with 63 degrees of freedom, for
 * the whole and for each part, with and without Hutch++. */
static void means_are_unbiased_and_errors_right(void **state)
{
    (void)state;
    enum { SEEDS = 300 };
    struct spectral s;
    double want[PARTS + 1], sum[PARTS + 1] = {0}, square[PARTS + 1] = {0};
    want[PARTS] = make(&s, 6);
    part_traces(&s, want);
    for (int plus = 0; plus < 2; plus++) {
        memset(sum, 0, sizeof sum);
        memset(square, 0, sizeof square);
        for (uint64_t seed = 0; seed < SEEDS; seed++) {
            struct trace_estimate r;
            /* The sketch of 3 leaves half of the large eigenvalues to the probes. */
            struct trace_options o = options(64);
            o.seed = seed + 1;
            if (plus) o.hutchpp = true, o.probes = 11;
            assert_int_equal(trace_estimate(&s.op, &o, &r, NULL), OK);
            check_sums(&r);
            assert_true(r.products == o.probes && r.probes == (plus ? 5 : 64));
            for (int t = 0; t <= PARTS; t++) {
                double value = t < PARTS ? r.part[t] : r.mean;
                double error = t < PARTS ? r.part_error[t] : r.error;
                double z = value - want[t];
                if (!plus && t != 2) z /= error;
                sum[t] += z / SEEDS;
                square[t] += z * z / SEEDS;
            }
            trace_estimate_free(&r);
        }
        for (int t = 0; t <= PARTS; t++) {
            if (t == 2)
                assert_true(square[t] == 0); /* an empty part */
            else
                assert_true(fabs(sum[t]) < 4 * sqrt(square[t] / SEEDS));
            if (!plus && t != 2) assert_true(square[t] > 0.7 && square[t] < 1.4);
        }
    }
    spectral_free(&s);
}

/* Hutch++ has less variance at the same cost, and none if the sketch spans the range. */
static void hutchpp_has_less_variance(void **state)
{
    (void)state;
    struct spectral s;
    struct trace_estimate plain, plus;
    struct trace_options o = options(30);
    double want = make(&s, 6), parts[PARTS];
    assert_int_equal(trace_estimate(&s.op, &o, &plain, NULL), OK);
    o.hutchpp = true;
    assert_int_equal(trace_estimate(&s.op, &o, &plus, NULL), OK);
    assert_true(plus.products == 30 && plus.probes == 10);
    assert_true(plus.error < plain.error / 5 && fabs(plus.mean - want) < 4 * plus.error);
    trace_estimate_free(&plain);
    trace_estimate_free(&plus);
    for (int64_t i = 6; i < N; i++) {
        want -= s.value[i];
        s.value[i] = 0;
    }
    part_traces(&s, parts);
    assert_int_equal(trace_estimate(&s.op, &o, &plus, NULL), OK);
    assert_true(plus.products == 10 + 6 + 10); /* the basis has 6 vectors, the rank of the matrix */
    assert_true(fabs(plus.mean - want) < 1e-4 && plus.error < 1e-4);
    for (int t = 0; t < PARTS; t++) assert_true(fabs(plus.part[t] - parts[t]) < 1e-4);
    trace_estimate_free(&plus);
    spectral_free(&s);
}

/* Results do not depend on how many probes share a call. */
static void any_probes_together_give_the_same(void **state)
{
    (void)state;
    struct spectral s;
    struct trace_estimate one, many;
    make(&s, 6);
    for (int plus = 0; plus < 2; plus++) {
        struct trace_options o = options(17);
        o.hutchpp = plus;
        o.together = 0;
        assert_int_equal(trace_estimate(&s.op, &o, &one, NULL), OK);
        o.together = plus ? 100 : 5;
        assert_int_equal(trace_estimate(&s.op, &o, &many, NULL), OK);
        assert_true(one.mean == many.mean && one.error == many.error);
        assert_memory_equal(one.samples, many.samples,
                            (size_t)(one.probes * one.n_parts) * sizeof(double));
        trace_estimate_free(&one);
        trace_estimate_free(&many);
    }
    spectral_free(&s);
}

static void stops_at_the_error_asked_for(void **state)
{
    (void)state;
    struct spectral s;
    struct trace_estimate r;
    struct trace_options o = options(4);
    make(&s, 1);
    o.target = 0.05;
    o.probes_max = 5000;
    assert_int_equal(trace_estimate(&s.op, &o, &r, NULL), OK);
    assert_true(r.converged && r.probes > 4 && r.probes < 5000 && r.error <= 0.05 * fabs(r.mean));
    assert_true(r.products == r.probes && s.products == r.probes);
    trace_estimate_free(&r);
    o.probes_max = 20;
    o.target = 1e-9;
    assert_int_equal(trace_estimate(&s.op, &o, &r, NULL), OK);
    assert_true(!r.converged && r.probes == 20);
    trace_estimate_free(&r);
    spectral_free(&s);
}

/* Errors of groups come from the samples: two parts in one group behave as one larger part. */
static void parts_in_a_group_are_one_part(void **state)
{
    (void)state;
    struct spectral s;
    struct trace_estimate fine, coarse;
    const int64_t halves[] = {0, 50, N}, group[PARTS] = {0, 0, 0, 1};
    double mean[2], error[2];
    struct trace_options o = options(12);
    make(&s, 6);
    for (int plus = 0; plus < 2; plus++) {
        o.hutchpp = plus;
        o.parts = (struct parts){PARTS, offset};
        assert_int_equal(trace_estimate(&s.op, &o, &fine, NULL), OK);
        o.parts = (struct parts){2, halves};
        assert_int_equal(trace_estimate(&s.op, &o, &coarse, NULL), OK);
        assert_int_equal(trace_group(&fine, group, 2, mean, error, NULL), OK);
        for (int g = 0; g < 2; g++) {
            assert_true(fabs(mean[g] - coarse.part[g]) < 1e-9);
            assert_true(fabs(error[g] - coarse.part_error[g]) < 1e-9);
        }
        trace_estimate_free(&fine);
        trace_estimate_free(&coarse);
    }
    spectral_free(&s);
}

/* The variance of samples has one degree of freedom less than there are; what is exact moves the
 * mean alone. */
static void errors_of_three_samples_by_hand(void **state)
{
    (void)state;
    double samples[] = {1, 2, 3, 5, 8, 5}, exact[] = {10, 20}, mean[2], error[2];
    const struct trace_estimate r = {.n_parts = 2, .probes = 3, .samples = samples, .exact = exact};
    assert_int_equal(trace_group(&r, (const int64_t[]){0, 0}, 1, mean, error, NULL), OK);
    assert_true(mean[0] == 30 + 8 && fabs(error[0] - sqrt(50.0 / 2 / 3)) < 1e-12);
    assert_int_equal(trace_group(&r, (const int64_t[]){1, 0}, 2, mean, error, NULL), OK);
    assert_true(mean[1] == 10 + 4 && fabs(error[1] - sqrt(26.0 / 2 / 3)) < 1e-12);
    assert_true(mean[0] == 20 + 4 && fabs(error[0] - sqrt(6.0 / 2 / 3)) < 1e-12);
}

static void faults_end_the_estimate(void **state)
{
    (void)state;
    struct spectral s;
    struct trace_estimate r;
    struct err e = {0};
    make(&s, 6);
    struct trace_options o = options(30);
    o.hutchpp = true;
    o.memory = 10 * N * 4; /* 30 products, 3 together: 16 vectors */
    assert_int_equal(trace_estimate(&s.op, &o, &r, &e), ERR_USAGE);
    assert_non_null(strstr(e.text, "16 vectors"));
    assert_non_null(strstr(e.text, "at most 26 products"));
    o.probes = 26;
    o.together = 1;
    assert_int_equal(trace_estimate(&s.op, &o, &r, NULL), OK);
    trace_estimate_free(&r);
    o.probes = 6; /* 2 vectors of the sketch, 2 for each of 2 probes in a call */
    o.together = 8;
    o.memory = 6 * N * 4;
    assert_int_equal(trace_estimate(&s.op, &o, &r, NULL), OK);
    trace_estimate_free(&r);
    o.memory = 3 * N * 4;
    err_clear(&e);
    assert_int_equal(trace_estimate(&s.op, &o, &r, &e), ERR_USAGE);
    assert_non_null(strstr(e.text, "at least 4 vectors"));
    o.probes = 5;
    assert_int_equal(trace_estimate(&s.op, &o, &r, NULL), ERR_USAGE);
    o = options(0);
    assert_int_equal(trace_estimate(&s.op, &o, &r, NULL), ERR_USAGE);
    for (int plus = 0; plus < 2; plus++)
        for (int64_t at = 1; at <= 9; at += 4) {
            o = options(9);
            o.hutchpp = plus;
            s.fail_at = s.products + at;
            s.failure = OK;
            assert_int_equal(trace_estimate(&s.op, &o, &r, NULL), ERR_NUMERIC);
            s.fail_at = s.products + at;
            s.failure = ERR_IO;
            assert_int_equal(trace_estimate(&s.op, &o, &r, NULL), ERR_IO);
        }
    o = options(1);
    s.fail_at = 0;
    assert_int_equal(trace_estimate(&s.op, &o, &r, NULL), OK);
    assert_true(isnan(r.error) && isfinite(r.mean));
    trace_estimate_free(&r);
    spectral_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_diagonal_is_exact),
        cmocka_unit_test(means_are_unbiased_and_errors_right),
        cmocka_unit_test(hutchpp_has_less_variance),
        cmocka_unit_test(any_probes_together_give_the_same),
        cmocka_unit_test(stops_at_the_error_asked_for),
        cmocka_unit_test(parts_in_a_group_are_one_part),
        cmocka_unit_test(errors_of_three_samples_by_hand),
        cmocka_unit_test(faults_end_the_estimate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

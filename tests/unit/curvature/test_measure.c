/* curvature_measure on operators with known spectra that are divided into tensors. */
#include "curvature/measure.h"
#include "spectral.h"

enum { N = 60, TENSORS = 5 };

struct dense {
    struct spectral a;
    struct subject s;
    struct hvp_tensor tensors[TENSORS];
};

static enum status gradient(void *context, float *g, double *loss, struct err *e)
{
    (void)context;
    (void)e;
    for (int i = 0; i < N; i++) g[i] = i < 20 ? 3 : 0;
    *loss = 1.5;
    return OK;
}

static void dense_init(struct dense *d)
{
    static const struct hvp_tensor tensors[TENSORS] = {
        {.name = "embed", .offset = 0, .elements = 20, .layer = -1},
        {.name = "x.0.mlp.w", .offset = 20, .elements = 10, .layer = 0},
        {.name = "x.0.norm", .offset = 30, .elements = 4, .layer = 0},
        {.name = "x.1.mlp.w", .offset = 34, .elements = 10, .layer = 1},
        {.name = "y", .offset = 44, .elements = 16, .layer = -1}};
    spectral_init(&d->a, N, 7, 1);
    for (int i = 0; i < N; i++) d->a.value[i] = i < 3 ? 40 - 10 * i : i < 5 ? -25 + i : 0.02 * i;
    memcpy(d->tensors, tensors, sizeof tensors);
    d->s = (struct subject){d->a.op, gradient, NULL, TENSORS, d->tensors};
}

static void near(double x, double y, double error)
{
    if (!(fabs(x - y) <= error)) fail_msg("%.9g, expected %.9g within %.2g", x, y, error);
}

/* Defaults of every test: nothing is requested yet. */
struct fixture {
    struct dense d;
    struct curvature_request r;
    struct curvature c;
    struct err e;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    dense_init(&f->d);
    f->r.seed = 3;
    options_default(&curvature_table, &f->r.options);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    curvature_free(&f->c);
    spectral_free(&f->d.a);
    free(f);
    return 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

/* Measures into f->c. */
static enum status measure(struct fixture *f)
{
    curvature_free(&f->c);
    err_clear(&f->e);
    return curvature_measure(&f->d.s, &f->r, &f->c, &f->e);
}

static void gradient_alone(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(measure(f), OK);
    assert_true(f->c.loss == 1.5 && f->c.parameters == N && f->c.products == 0);
    near(f->c.gradient_norm, 3 * sqrt(20), 1e-6);
    near(f->c.gradient_norms[0], 3 * sqrt(20), 1e-6);
    assert_true(f->c.gradient_norms[1] == 0 && isnan(f->c.sharpness.value) &&
                isnan(f->c.trace.mean));
}

static void everything(void **state)
{
    struct fixture *f = *state;
    double diagonal[N], part = 0;
    f->r.options.sharpness = SHARPNESS_LANCZOS;
    f->r.options.smallest = true;
    f->r.options.trace = 400;
    f->r.options.density = 10;
    f->r.probe = true;
    f->r.salt = 2;
    assert_int_equal(measure(f), OK);
    assert_int_equal(f->c.products, f->d.a.products);
    assert_int_equal(f->c.products, 1 + f->c.iterations + 400 + 10);
    near(f->c.sharpness.value, 40, 1e-3);
    near(f->c.smallest.value, -22, 1e-3);
    near(f->c.dominant.value, 40, 1e-3);
    double trace = 0;
    for (int i = 0; i < N; i++) trace += f->d.a.value[i];
    near(f->c.trace.mean, trace, 3 * f->c.trace.error);
    /* outside, layer 0, layer 1; then the kinds embed, mlp.w, norm, y */
    static const struct {
        const char *kind;
        int layer, elements;
    } parts[] = {{"", -1, 36},      {"", 0, 14},     {"", 1, 10},  {"embed", -1, 20},
                 {"mlp.w", -1, 20}, {"norm", -1, 4}, {"y", -1, 16}};
    assert_int_equal(f->c.split.n, 7);
    for (int i = 0; i < 7; i++) {
        assert_string_equal(f->c.split.parts[i].kind, parts[i].kind);
        assert_int_equal(f->c.split.parts[i].layer, parts[i].layer);
        assert_int_equal(f->c.split.parts[i].elements, parts[i].elements);
    }
    spectral_diagonal(&f->d.a, diagonal);
    for (int i = 20; i < 34; i++) part += diagonal[i];
    near(f->c.split.parts[1].trace, part, 3.5 * f->c.split.parts[1].error);
    near(f->c.split.parts[4].trace, f->c.trace.part[1] + f->c.trace.part[3], 1e-9);
    double sum = 0;
    for (int t = 0; t < TENSORS; t++) sum += f->c.vhv_per_tensor[t];
    near(sum, f->c.vhv, 1e-9 * fabs(f->c.vhv));
}

/* Probes, densities and start vectors of one seed use different random numbers: a trace does not
 * depend on what else is requested. */
static void parts_are_independent(void **state)
{
    struct fixture *f = *state;
    f->r.options.trace = 8;
    assert_int_equal(measure(f), OK);
    const double mean = f->c.trace.mean, error = f->c.trace.error;
    f->r.options.sharpness = SHARPNESS_POWER;
    f->r.options.density = 5;
    f->r.options.together = 3;
    assert_int_equal(measure(f), OK);
    assert_true(f->c.trace.mean == mean && f->c.trace.error == error);
}

/* trace_error: probes are added until the standard error is small enough or trace_most is reached;
 * the first ones are those of a shorter run. */
static void trace_to_a_target(void **state)
{
    struct fixture *f = *state;
    f->r.options.trace = 4;
    assert_int_equal(measure(f), OK);
    assert_true(f->c.trace.probes == 4 && f->c.trace.error > 0.03 * fabs(f->c.trace.mean));
    double few[4 * TENSORS], trace = 0;
    memcpy(few, f->c.trace.samples, sizeof few);
    f->r.options.trace_error = 0.03;
    f->r.options.trace_most = 4000;
    assert_int_equal(measure(f), OK);
    assert_true(f->c.trace.converged && f->c.trace.probes > 4 && f->c.trace.probes < 4000);
    assert_true(f->c.trace.error <= 0.03 * fabs(f->c.trace.mean));
    assert_true(f->c.products == f->c.trace.probes && f->d.a.products == 4 + f->c.products);
    assert_memory_equal(few, f->c.trace.samples, sizeof few);
    for (int i = 0; i < N; i++) trace += f->d.a.value[i];
    near(f->c.trace.mean, trace, 4 * f->c.trace.error);
    f->r.options.trace_most = 6;
    f->r.options.trace_error = 1e-6;
    assert_int_equal(measure(f), OK);
    assert_true(!f->c.trace.converged && f->c.trace.probes == 6);
}

static void warm_start_goes_on(void **state)
{
    struct fixture *f = *state;
    f->r.options.sharpness = SHARPNESS_POWER;
    f->r.options.stop = POWER_RESIDUAL;
    f->r.keep_vector = true;
    assert_int_equal(measure(f), OK);
    struct curvature cold = f->c;
    f->c = (struct curvature){0};
    f->r.start = cold.vector;
    assert_int_equal(measure(f), OK);
    assert_true(cold.sharpness.converged && f->c.sharpness.converged);
    assert_true(f->c.iterations < cold.iterations);
    curvature_free(&cold);
}

/* Fewer vectors than Lanczos and Hutch++ need are refused with a remedy; before that, Lanczos
 * restarts. */
static void memory(void **state)
{
    struct fixture *f = *state;
    const double vector = N * sizeof(float) / 0x1p30;
    const struct hvp_bytes calls = {.gradient = 1000, .product = 2000, .further = 500};
    f->r.options.sharpness = SHARPNESS_LANCZOS;
    f->r.options.memory = 5.5 * vector;
    assert_int_equal(measure(f), OK);
    assert_int_equal(curvature_bytes(&f->r.options, N, &calls), 5 * N * sizeof(float) + 2000);
    assert_true(f->c.vectors == 5 && f->c.restarts > 0 && f->c.sharpness.converged);
    near(f->c.sharpness.value, 40, 1e-3);
    f->r.options.memory = 3.5 * vector;
    assert_int_equal(measure(f), ERR_USAGE);
    assert_non_null(strstr(f->e.text, "take sharpness: power"));
    f->r.options.sharpness = SHARPNESS_NONE;
    f->r.options.trace = 30;
    assert_int_equal(curvature_bytes(&f->r.options, N, &calls), 2 * N * sizeof(float) + 2000);
    f->r.options.memory = 1;
    assert_int_equal(curvature_bytes(&f->r.options, N, &calls), 16 * N * sizeof(float) + 5500);
    f->r.options.hutchpp = true;
    assert_int_equal(curvature_bytes(&f->r.options, N, &calls), 26 * N * sizeof(float) + 5500);
    f->r.options.trace = 9;
    assert_int_equal(curvature_bytes(&f->r.options, N, &calls), 9 * N * sizeof(float) + 3000);
    f->r.options.memory = 3.5 * vector;
    assert_int_equal(measure(f), ERR_USAGE);
    assert_non_null(strstr(f->e.text, "more memory"));
}

static void what_is_not_finite(void **state)
{
    struct fixture *f = *state;
    f->r.options.trace = 8;
    f->d.a.fail_at = 2;
    assert_int_equal(measure(f), ERR_NUMERIC);
    assert_non_null(strstr(f->e.text, "not finite"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(gradient_alone),     TEST(everything),         TEST(parts_are_independent),
        TEST(trace_to_a_target),  TEST(warm_start_goes_on), TEST(memory),
        TEST(what_is_not_finite),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

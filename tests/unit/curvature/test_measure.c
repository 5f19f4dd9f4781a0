/* What curvature_measure puts together, of operators with known spectra cut into tensors. */
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

static void request(struct curvature_request *r)
{
    *r = (struct curvature_request){.seed = 3};
    curvature_options_default(&r->options);
}

static void near(double x, double y, double error)
{
    if (!(fabs(x - y) <= error)) fail_msg("%.9g, expected %.9g within %.2g", x, y, error);
}

static void gradient_alone(void **state)
{
    (void)state;
    struct dense d;
    struct curvature_request r;
    struct curvature c;
    dense_init(&d);
    request(&r);
    assert_int_equal(curvature_measure(&d.s, &r, &c, NULL), OK);
    assert_true(c.loss == 1.5 && c.parameters == N && c.products == 0);
    near(c.gradient_norm, 3 * sqrt(20), 1e-6);
    near(c.gradient_norms[0], 3 * sqrt(20), 1e-6);
    assert_true(c.gradient_norms[1] == 0 && isnan(c.sharpness.value) && isnan(c.trace.mean));
    curvature_free(&c);
    spectral_free(&d.a);
}

static void everything(void **state)
{
    (void)state;
    struct dense d;
    struct curvature_request r;
    struct curvature c;
    double diagonal[N], part = 0;
    dense_init(&d);
    request(&r);
    r.options.sharpness = SHARPNESS_LANCZOS;
    r.options.smallest = true;
    r.options.trace = 400;
    r.options.density = 10;
    r.probe = true;
    r.salt = 2;
    assert_int_equal(curvature_measure(&d.s, &r, &c, NULL), OK);
    assert_int_equal(c.products, d.a.products);
    assert_int_equal(c.products, 1 + c.iterations + 400 + 10);
    near(c.sharpness.value, 40, 1e-3);
    near(c.smallest.value, -22, 1e-3);
    near(c.dominant.value, 40, 1e-3);
    double trace = 0;
    for (int i = 0; i < N; i++) trace += d.a.value[i];
    near(c.trace.mean, trace, 3 * c.trace.error);
    /* outside, layer 0, layer 1; then the kinds embed, mlp.w, norm, y */
    static const struct {
        const char *kind;
        int layer, elements;
    } parts[] = {{"", -1, 36},      {"", 0, 14},     {"", 1, 10},  {"embed", -1, 20},
                 {"mlp.w", -1, 20}, {"norm", -1, 4}, {"y", -1, 16}};
    assert_int_equal(c.split.n, 7);
    for (int i = 0; i < 7; i++) {
        assert_string_equal(c.split.parts[i].kind, parts[i].kind);
        assert_int_equal(c.split.parts[i].layer, parts[i].layer);
        assert_int_equal(c.split.parts[i].elements, parts[i].elements);
    }
    spectral_diagonal(&d.a, diagonal);
    for (int i = 20; i < 34; i++) part += diagonal[i];
    near(c.split.parts[1].trace, part, 3.5 * c.split.parts[1].error);
    near(c.split.parts[4].trace, c.trace.part[1] + c.trace.part[3], 1e-9);
    double sum = 0;
    for (int t = 0; t < TENSORS; t++) sum += c.vhv_per_tensor[t];
    near(sum, c.vhv, 1e-9 * fabs(c.vhv));
    curvature_free(&c);
    spectral_free(&d.a);
}

/* Probes, densities and start vectors of one seed share nothing: a trace does not depend on what
 * else is asked for. */
static void parts_are_independent(void **state)
{
    (void)state;
    struct dense d;
    struct curvature_request r;
    struct curvature alone, all;
    dense_init(&d);
    request(&r);
    r.options.trace = 8;
    assert_int_equal(curvature_measure(&d.s, &r, &alone, NULL), OK);
    r.options.sharpness = SHARPNESS_POWER;
    r.options.density = 5;
    r.options.together = 3;
    assert_int_equal(curvature_measure(&d.s, &r, &all, NULL), OK);
    assert_true(alone.trace.mean == all.trace.mean && alone.trace.error == all.trace.error);
    curvature_free(&alone);
    curvature_free(&all);
    spectral_free(&d.a);
}

static void warm_start_goes_on(void **state)
{
    (void)state;
    struct dense d;
    struct curvature_request r;
    struct curvature cold, warm;
    dense_init(&d);
    request(&r);
    r.options.sharpness = SHARPNESS_POWER;
    r.options.stop = POWER_RESIDUAL;
    r.keep_vector = true;
    assert_int_equal(curvature_measure(&d.s, &r, &cold, NULL), OK);
    r.start = cold.vector;
    assert_int_equal(curvature_measure(&d.s, &r, &warm, NULL), OK);
    assert_true(cold.sharpness.converged && warm.sharpness.converged);
    assert_true(warm.iterations < cold.iterations);
    curvature_free(&cold);
    curvature_free(&warm);
    spectral_free(&d.a);
}

/* Fewer vectors than Lanczos and Hutch++ need are refused with what to do; restarts come before. */
static void memory(void **state)
{
    (void)state;
    const double vector = N * sizeof(float) / 0x1p30;
    const struct hvp_bytes calls = {.gradient = 1000, .product = 2000, .further = 500};
    struct dense d;
    struct curvature_request r;
    struct curvature c;
    struct err e = {0};
    dense_init(&d);
    request(&r);
    r.options.sharpness = SHARPNESS_LANCZOS;
    r.options.memory = 5.5 * vector;
    assert_int_equal(curvature_measure(&d.s, &r, &c, NULL), OK);
    assert_int_equal(curvature_bytes(&r.options, N, &calls), 5 * N * sizeof(float) + 2000);
    assert_true(c.vectors == 5 && c.restarts > 0 && c.sharpness.converged);
    near(c.sharpness.value, 40, 1e-3);
    curvature_free(&c);
    r.options.memory = 3.5 * vector;
    assert_int_equal(curvature_measure(&d.s, &r, &c, &e), ERR_USAGE);
    assert_non_null(strstr(e.text, "take sharpness: power"));
    curvature_free(&c);
    err_clear(&e);
    r.options.sharpness = SHARPNESS_NONE;
    r.options.trace = 30;
    assert_int_equal(curvature_bytes(&r.options, N, &calls), 2 * N * sizeof(float) + 2000);
    r.options.memory = 1;
    assert_int_equal(curvature_bytes(&r.options, N, &calls), 16 * N * sizeof(float) + 5500);
    r.options.hutchpp = true;
    assert_int_equal(curvature_bytes(&r.options, N, &calls), 26 * N * sizeof(float) + 5500);
    r.options.memory = 3.5 * vector;
    assert_int_equal(curvature_measure(&d.s, &r, &c, &e), ERR_USAGE);
    assert_non_null(strstr(e.text, "more memory"));
    curvature_free(&c);
    spectral_free(&d.a);
}

static void what_is_not_finite(void **state)
{
    (void)state;
    struct dense d;
    struct curvature_request r;
    struct curvature c;
    struct err e = {0};
    dense_init(&d);
    request(&r);
    r.options.trace = 8;
    d.a.fail_at = 2;
    assert_int_equal(curvature_measure(&d.s, &r, &c, &e), ERR_NUMERIC);
    assert_non_null(strstr(e.text, "not finite"));
    curvature_free(&c);
    spectral_free(&d.a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradient_alone),
        cmocka_unit_test(everything),
        cmocka_unit_test(parts_are_independent),
        cmocka_unit_test(warm_start_goes_on),
        cmocka_unit_test(memory),
        cmocka_unit_test(what_is_not_finite),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* A measurement that is interrupted before any of its products and continued from its saved state
 * gives the bits of an undisturbed one, and computes no product twice. */
#include "curvature/measure.h"
#include "scratch.h"
#include "spectral.h"
#include "util/rng.h"

enum { N = 60, TENSORS = 3 };

static int64_t gradients;

static enum status gradient(void *context, float *g, double *loss, struct err *e)
{
    (void)context;
    (void)e;
    gradients++;
    for (int i = 0; i < N; i++) g[i] = i < 20 ? 3 : 0;
    *loss = 1.5;
    return OK;
}

struct dense {
    struct spectral a;
    struct subject s;
    struct hvp_tensor tensors[TENSORS];
};

static void dense_init(struct dense *d)
{
    static const struct hvp_tensor tensors[TENSORS] = {
        {.name = "embed", .offset = 0, .elements = 20, .layer = -1},
        {.name = "x.0.mlp.w", .offset = 20, .elements = 24, .layer = 0},
        {.name = "y", .offset = 44, .elements = 16, .layer = -1}};
    spectral_init(&d->a, N, 7, 1);
    for (int i = 0; i < N; i++) d->a.value[i] = i < 3 ? 40 - 10 * i : i < 5 ? -25 + i : 0.02 * i;
    memcpy(d->tensors, tensors, sizeof tensors);
    d->s = (struct subject){d->a.op, gradient, NULL, TENSORS, d->tensors};
}

static void same(const void *a, const void *b, int64_t n)
{
    assert_true((a == NULL) == (b == NULL));
    if (a) assert_memory_equal(a, b, (size_t)n);
}

static void same_numbers(const struct curvature *a, const struct curvature *b)
{
    const int64_t one = (int64_t)sizeof(double), tensors = TENSORS * one;
    same(&a->loss, &b->loss, one);
    same(&a->gradient_norm, &b->gradient_norm, one);
    same(a->gradient_norms, b->gradient_norms, tensors);
    same(&a->sharpness.value, &b->sharpness.value, one);
    same(&a->sharpness.residual, &b->sharpness.residual, one);
    same(&a->smallest.value, &b->smallest.value, one);
    assert_int_equal(a->sharpness.converged, b->sharpness.converged);
    assert_int_equal(a->iterations, b->iterations);
    assert_int_equal(a->restarts, b->restarts);
    assert_int_equal(a->products, b->products);
    same(a->vector, b->vector, N * (int64_t)sizeof(float));
    same(&a->trace.mean, &b->trace.mean, one);
    same(&a->trace.error, &b->trace.error, one);
    assert_int_equal(a->trace.probes, b->trace.probes);
    same(a->trace.samples, b->trace.samples, a->trace.probes * tensors);
    assert_int_equal(a->split.n, b->split.n);
    for (int64_t i = 0; i < a->split.n; i++)
        same(&a->split.parts[i].trace, &b->split.parts[i].trace, one);
    assert_int_equal(a->density.runs, b->density.runs);
    same(a->density.node, b->density.node, a->density.runs * a->density.steps * one);
    same(a->density.weight, b->density.weight, a->density.runs * a->density.steps * one);
}

/* Measures with a saved state; *products: those of this call alone. */
static enum status measure(struct dense *d, const struct curvature_request *r, int64_t stop_at,
                           struct curvature *out, int64_t *products)
{
    char hash[HASH_HEX];
    hash_text("test", hash);
    struct saved_place place = {.comm = MPI_COMM_SELF,
                                .folder = scratch_path("states"),
                                .name = hash,
                                .label = "test",
                                .identity = {"a", "b", "c"}};
    struct err e = {0};
    assert_int_equal(saved_open(&place, &d->s.hessian.saved, &e), OK);
    d->a.products = 0;
    d->a.fail_at = stop_at;
    d->a.failure = ERR_STOPPED;
    const enum status st = curvature_measure(&d->s, r, out, &e);
    if (st == OK) saved_remove(d->s.hessian.saved);
    saved_close(d->s.hessian.saved);
    *products = d->a.products;
    d->s.hessian.saved = NULL;
    return st;
}

/* Stops before the n-th product, for every n, and continues. */
static void resumes(const struct curvature_request *r)
{
    struct dense d;
    struct curvature whole, found;
    int64_t all, before, after, n = 1;
    dense_init(&d);
    assert_int_equal(curvature_measure(&d.s, r, &whole, NULL), OK);
    all = d.a.products;
    assert_true(all > 6);
    for (; n <= all; n++) {
        gradients = 0;
        assert_int_equal(measure(&d, r, n, &found, &before), ERR_STOPPED);
        curvature_free(&found);
        assert_int_equal(measure(&d, r, 0, &found, &after), OK);
        assert_int_equal(gradients, 1);
        /* Products of one call are done together or not at all. */
        assert_in_range(before - 1 + after, all, all + r->options.together);
        same_numbers(&whole, &found);
        curvature_free(&found);
        assert_int_not_equal(access(scratch_path("states"), F_OK), 0);
    }
    curvature_free(&whole);
    spectral_free(&d.a);
}

static struct curvature_request asked(int sharpness)
{
    struct curvature_request r = {.seed = 3, .keep_vector = true};
    options_default(&curvature_table, &r.options);
    r.options.sharpness = sharpness;
    r.options.tolerance = 1e-9;
    r.options.products = 9;
    r.options.trace = 6;
    r.options.together = 2;
    r.options.density = 5;
    r.options.density_runs = 2;
    return r;
}

static void by_power(void **state)
{
    (void)state;
    const struct curvature_request r = asked(SHARPNESS_POWER);
    resumes(&r);
}

/* Few vectors, so that it restarts; a density that does not store all of its own. */
static void by_lanczos(void **state)
{
    (void)state;
    struct curvature_request r = asked(SHARPNESS_LANCZOS);
    r.options.memory = 5.2 * N * sizeof(float) / 0x1p30;
    r.options.density = 7;
    resumes(&r);
}

static void until_the_trace_is_exact(void **state)
{
    (void)state;
    struct curvature_request r = asked(SHARPNESS_NONE);
    r.options.trace = 3;
    r.options.trace_error = 1e-6;
    r.options.trace_most = 12;
    resumes(&r);
}

static void hutchpp(void **state)
{
    (void)state;
    struct curvature_request r = asked(SHARPNESS_NONE);
    r.options.hutchpp = true;
    r.options.trace = 14;
    resumes(&r);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    setenv("QTRAJ_SAVE", "always", 1);
    const struct CMUnitTest tests[] = {cmocka_unit_test(by_power), cmocka_unit_test(by_lanczos),
                                       cmocka_unit_test(until_the_trace_is_exact),
                                       cmocka_unit_test(hutchpp)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    MPI_Finalize();
    return failed;
}

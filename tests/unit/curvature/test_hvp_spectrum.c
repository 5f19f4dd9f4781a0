/* The whole Hessians of the tiny models, column by column, and in f32 the estimates of eigenvalues,
 * trace and density from Hessian-vector products, against those of the f64 Hessian. REAL: f32 f64
 */
#include "hvp_fixture.h"
#include "math/linalg.h"

/* Column i of the Hessian is the product with the i-th unit vector. */
static void whole_hessian(void **state)
{
    enum { K = 16 };
    struct hvp_fixture f;
    hvp_fixture_open(&f, *state, HVP_ALL);
    real *v[K], *hv[K];
    double *diagonal = hvp_answer(&f, "hessian.diagonal", NULL), squares = 0, trace = 0, most = 0;
    for (int k = 0; k < K; k++) v[k] = hvp_vector(&f), hv[k] = hvp_vector(&f);
    for (int64_t i = 0; i < f.n; i += K) {
        int64_t together = f.n - i < K ? f.n - i : K;
        for (int64_t k = 0; k < together; k++) v[k][i + k] = 1;
        OK_OR_FAIL(hvp_apply(f.h, together, (const real *const *)v, hv, e));
        for (int64_t k = 0; k < together; k++) {
            double size = norm(f.n, hv[k]), entry = (double)hv[k][i + k];
            if (fabs(entry - diagonal[i + k]) > tolerance * fmax(size, 1e-3))
                fail_msg("entry %lld is %.12g, expected %.12g", (long long)(i + k), entry,
                         diagonal[i + k]);
            trace += entry;
            squares += size * size;
            most = fmax(most, size);
            v[k][i + k] = 0;
        }
    }
    double frobenius = hvp_answer_one(&f, "hessian.frobenius");
    assert_true(fabs(sqrt(squares) - frobenius) <= tolerance * frobenius);
    assert_true(fabs(trace - hvp_answer_one(&f, "hessian.trace")) <= tolerance * frobenius);
    for (int k = 0; k < K; k++) free(v[k]), free(hv[k]);
    free(diagonal);
    hvp_fixture_close(&f);
}

#ifndef QTRAJ_REAL_F64
#include "curvature/density.h"
#include "curvature/lanczos.h"
#include "curvature/power.h"
#include "curvature/trace.h"

static struct lanczos_result ends_of(const struct operator* op)
{
    struct lanczos_options o = {.want = LANCZOS_LARGEST | LANCZOS_SMALLEST,
                                .tolerance = 1e-6,
                                .products = 400,
                                .vectors = 60,
                                .stream = 11};
    struct lanczos_result r;
    OK_OR_FAIL(lanczos_ends(op, &o, NULL, NULL, &r, e));
    return r;
}

static void close_to(double x, double want, double bound)
{
    if (!(fabs(x - want) <= bound * fabs(want)))
        fail_msg("%.10g, expected %.10g within %g of it", x, want, bound);
}

static enum status hessian(void *context, int64_t k, const float *const *x, float *const *y,
                           struct err *e)
{
    return hvp_apply(context, k, x, y, e);
}

static void estimates_of_tiny(void **state)
{
    struct hvp_fixture f;
    struct operator op;
    int64_t n;
    hvp_fixture_open(&f, *state, HVP_ALL);
    op = (struct operator){.space = *hvp_space(f.h), .apply = hessian, .context = f.h};
    double *value = hvp_answer(&f, "hessian.eigenvalues", &n);
    struct lanczos_result ends = ends_of(&op);
    close_to(ends.largest.value, value[n - 1], 1e-5);
    close_to(ends.smallest.value, value[0], 1e-5);

    struct trace_options t = {.probes = 64, .together = 8, .seed = 1};
    struct trace_estimate trace;
    OK_OR_FAIL(trace_estimate(&op, &t, &trace, e));
    assert_true(fabs(trace.mean - hvp_answer_one(&f, "hessian.trace")) <= 3 * trace.error);
    trace_estimate_free(&trace);

    /* Nodes and weights integrate 1, x and x^2 exactly for each start, so the means over starts
     * estimate tr H / n and |H|^2 / n with the variance of random signs. */
    struct density_options d = {.runs = 16, .steps = 40, .seed = 2};
    struct density density;
    double moment[3] = {0}, powers[5] = {0};
    OK_OR_FAIL(density_estimate(&op, &d, &density, e));
    for (int64_t r = 0; r < d.runs; r++)
        for (int64_t i = 0; i < density.count[r]; i++)
            for (int k = 0; k < 3; k++)
                moment[k] += density.weight[r * d.steps + i] *
                             pow(density.node[r * d.steps + i], k) / (double)d.runs;
    for (int64_t i = 0; i < n; i++)
        for (int k = 0; k < 5; k++) powers[k] += pow(value[i], k);
    close_to(moment[0], 1, 1e-9);
    for (int k = 1; k < 3; k++) /* variance of v'Av <= 2 |A|^2 */
        assert_true(fabs(moment[k] - powers[k] / (double)n) <=
                    3 * sqrt(2 * powers[2 * k] / (double)d.runs) / (double)n);
    density_free(&density);
    free(value);
    hvp_fixture_close(&f);
}

static void eigenvalues_of_subsets(void **state)
{
    for (int s = HVP_ALL; s <= HVP_BLOCKS2D; s++) {
        struct hvp_fixture f;
        struct operator op;
        char name[64];
        const char *subset = hvp_subsets[s];
        hvp_fixture_open(&f, *state, (enum hvp_subset)s);
        op = (struct operator){.space = *hvp_space(f.h), .apply = hessian, .context = f.h};
        struct lanczos_result ends = ends_of(&op);
        snprintf(name, sizeof name, "eig.%s.largest", subset);
        close_to(ends.largest.value, hvp_answer_one(&f, name), 1e-4);
        snprintf(name, sizeof name, "eig.%s.smallest", subset);
        close_to(ends.smallest.value, hvp_answer_one(&f, name), 1e-4);
        snprintf(name, sizeof name, "eig.%s.dominant", subset);
        close_to(ends.dominant.value, hvp_answer_one(&f, name), 1e-4);
        hvp_fixture_close(&f);
    }
}
#endif

#define NAMED(function, name) cmocka_unit_test_prestate(function, (void *)(uintptr_t)(name))

int main(void)
{
    linalg_setup();
    const struct CMUnitTest tests[] = {
        NAMED(whole_hessian, "tiny_gpt_neox"),
#ifndef QTRAJ_REAL_F64
        NAMED(estimates_of_tiny, "tiny_llama"),
        NAMED(eigenvalues_of_subsets, "gpt_neox_parallel"),
#endif
#ifndef __SANITIZE_ADDRESS__ /* which looks at memory, not at numbers (model_fixtures.h) */
        NAMED(whole_hessian, "tiny_llama"),
#ifndef QTRAJ_REAL_F64
        NAMED(estimates_of_tiny, "tiny_gpt_neox"),
        NAMED(eigenvalues_of_subsets, "olmo2"),
        NAMED(eigenvalues_of_subsets, "llama"),
        NAMED(eigenvalues_of_subsets, "olmo3"),
#endif
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

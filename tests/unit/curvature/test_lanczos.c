/* Lanczos: known spectra with clusters, multiplicities and rank deficiency, any number of stored
 * vectors, few products, the same bits for any number of threads. */
#include "checkpoint/safetensors.h"
#include "curvature/lanczos.h"
#include "curvature/vector.h"
#include "spectral.h"
#include <omp.h>
#include <stdio.h>

enum { BOTH = LANCZOS_LARGEST | LANCZOS_SMALLEST };

static void check_pair(const struct spectral *s, struct eigenpair p, const float *v, double want,
                       double within, double scale)
{
    double norm, residual = spectral_residual(s, p.value, v, &norm);
    assert_true(p.converged);
    assert_true(fabs(p.value - want) <= within);
    assert_true(fabs(norm - 1) < 1e-6);
    /* The bound equals the residual, up to the rounding of f32 vectors and restarts in f32. */
    assert_true(fabs(residual - p.residual) <= 3e-6 * scale);
}

static void check_ends(struct spectral *s, int64_t vectors, double tolerance, double within)
{
    int64_t n = s->op.space.n;
    float *high = malloc((size_t)n * sizeof *high), *low = malloc((size_t)n * sizeof *low);
    double most = s->value[0], least = s->value[0];
    for (int64_t i = 0; i < n; i++) {
        most = fmax(most, s->value[i]);
        least = fmin(least, s->value[i]);
    }
    double scale = fmax(fabs(most), fabs(least));
    struct lanczos_options o = {BOTH, tolerance, 5000, vectors, 1, NULL, NULL};
    struct lanczos_result r;
    assert_non_null(high);
    assert_non_null(low);
    s->products = 0;
    assert_int_equal(lanczos_ends(&s->op, &o, high, low, &r, NULL), OK);
    check_pair(s, r.largest, high, most, within * scale, scale);
    check_pair(s, r.smallest, low, least, within * scale, scale);
    assert_true(r.dominant.value == (most >= -least ? r.largest.value : r.smallest.value));
    assert_true(r.iterations == s->products && r.vectors <= vectors && r.vectors <= n + 1);
    assert_true((r.restarts > 0) == (r.iterations > r.vectors - 1));
    free(high);
    free(low);
}

/* A bulk around zero, and outlying eigenvalues at both ends. */
static void make(struct spectral *s, int64_t n, double top, double bottom)
{
    spectral_init(s, n, 20, 1);
    for (int64_t i = 0; i < n; i++) s->value[i] = sin((double)i);
    s->value[n / 3] = top;
    s->value[n / 2] = bottom;
}

static void finds_separated_ends(void **state)
{
    (void)state;
    struct spectral s;
    const int64_t vectors[] = {4, 5, 8, 20, 100, 1000};
    make(&s, 300, 10, -4);
    for (int i = 0; i < 6; i++) check_ends(&s, vectors[i], 1e-5, 3e-7);
    spectral_free(&s);
    make(&s, 300, 1.5, -20);
    for (int i = 2; i < 6; i++) check_ends(&s, vectors[i], 1e-4, 3e-7);
    spectral_free(&s);
}

static void finds_ends_in_clusters(void **state)
{
    (void)state;
    struct spectral s;
    make(&s, 400, 3, -3.5);
    for (int i = 0; i < 5; i++) s.value[i] = 3 - 1e-6 * i;   /* tight */
    for (int i = 5; i < 10; i++) s.value[i] = -3.5;          /* multiple */
    for (int i = 10; i < 20; i++) s.value[i] = 3 - 1e-2 * i; /* loose */
    check_ends(&s, 40, 1e-4, 2e-6);
    check_ends(&s, 12, 1e-4, 2e-6);
    spectral_free(&s);
}

static void ends_early_on_few_eigenvalues(void **state)
{
    (void)state;
    struct spectral s;
    spectral_init(&s, 500, 30, 1);
    s.value[3] = 7;
    s.value[4] = 2;
    s.value[5] = 1e-3;
    check_ends(&s, 30, 1e-5, 1e-6); /* rank 3: finished by the fifth product */
    assert_true(s.products <= 6);
    check_ends(&s, 4, 1e-5, 1e-6);
    for (int i = 0; i < 500; i++) s.value[i] = 0;
    check_ends(&s, 10, 1e-5, 0);
    assert_true(s.products == 1);
    for (int i = 0; i < 500; i++) s.value[i] = -2; /* - 2 I */
    check_ends(&s, 10, 1e-5, 1e-6);
    assert_true(s.products <= 2);
    spectral_free(&s);
}

static void small_spaces_are_exact(void **state)
{
    (void)state;
    for (int64_t n = 1; n <= 6; n++)
        for (int64_t vectors = 4; vectors <= 8; vectors++) {
            struct spectral s;
            spectral_init(&s, n, 40, 1);
            for (int64_t i = 0; i < n; i++) s.value[i] = (double)(i + 1) * (i % 2 ? -1 : 1);
            check_ends(&s, vectors, 1e-5, 1e-6);
            spectral_free(&s);
        }
}

/* One end alone needs no more products than both, and a fraction of those of power iteration. */
static void one_end_takes_no_more_products(void **state)
{
    (void)state;
    struct spectral s;
    float v[600];
    struct lanczos_result one, both;
    struct power_result power;
    make(&s, 600, 1.3, -1.02);
    struct lanczos_options o = {BOTH, 1e-3, 500, 50, 1, NULL, NULL};
    struct power_options p = {POWER_RESIDUAL, 1e-3, 500, 1, NULL, NULL};
    assert_int_equal(lanczos_ends(&s.op, &o, NULL, NULL, &both, NULL), OK);
    o.want = LANCZOS_LARGEST;
    assert_int_equal(lanczos_ends(&s.op, &o, v, NULL, &one, NULL), OK);
    assert_int_equal(power_iterate(&s.op, &p, v, &power, NULL), OK);
    assert_true(one.largest.converged && both.largest.converged && power.top.converged);
    assert_true(one.iterations <= both.iterations && 2 * one.iterations < power.iterations);
    assert_true(fabs(one.largest.value - 1.3) < 1e-5 && fabs(both.smallest.value + 1.02) < 1e-4);
    o.want = LANCZOS_DOMINANT;
    assert_int_equal(lanczos_ends(&s.op, &o, NULL, NULL, &both, NULL), OK);
    assert_true(both.iterations == one.iterations && both.dominant.value == one.largest.value);
    /* Warm start: from its own vector the iteration ends quickly; a start in an invariant subspace
     * without the ends still finds them. */
    o.want = LANCZOS_LARGEST;
    assert_int_equal(lanczos_ends(&s.op, &o, v, NULL, &one, NULL), OK);
    o.start = v;
    assert_int_equal(lanczos_ends(&s.op, &o, NULL, NULL, &both, NULL), OK);
    assert_true(both.iterations < one.iterations && fabs(both.largest.value - 1.3) < 1e-4);
    memset(s.x, 0, 600 * sizeof *s.x);
    s.x[7] = 1;
    spectral_reflect(&s, 1);
    spectral_reflect(&s, 0);
    for (int i = 0; i < 600; i++) v[i] = (float)s.x[i];
    assert_int_equal(lanczos_ends(&s.op, &o, NULL, NULL, &both, NULL), OK);
    assert_true(fabs(both.largest.value - 1.3) < 1e-4);
    spectral_free(&s);
}

/* All eigenvalues of a real Hessian (tests/fixtures/models/tiny_*), on dense eigenvectors. */
static void finds_ends_of_real_hessians(void **state)
{
    (void)state;
    const char *names[] = {"tiny_llama", "tiny_gpt_neox"};
    for (int i = 0; i < 2; i++) {
        char path[512];
        struct safetensors file;
        struct spectral s;
        float *values;
        snprintf(path, sizeof path, FIXTURES "/models/%s/reference.safetensors", names[i]);
        assert_int_equal(safetensors_open(path, &file, NULL), OK);
        const struct tensor_entry *t = safetensors_find(&file, "hessian.eigenvalues");
        assert_non_null(t);
        spectral_init(&s, t->n_elements, 50, 1);
        values = malloc((size_t)t->n_elements * sizeof *values);
        assert_non_null(values);
        assert_int_equal(safetensors_read_range(&file, t, 0, t->n_elements, values, NULL), OK);
        for (int64_t k = 0; k < t->n_elements; k++) s.value[k] = values[k];
        check_ends(&s, 60, 1e-5, 1e-6);
        check_ends(&s, 16, 1e-4, 1e-6);
        free(values);
        spectral_free(&s);
        safetensors_close(&file);
    }
}

static void same_bits_for_any_threads(void **state)
{
    (void)state;
    enum { BIG = 70001 };
    static float v[3][BIG];
    struct spectral s;
    struct lanczos_result r[3];
    spectral_init(&s, BIG, 60, 0);
    for (int i = 0; i < BIG; i++) s.value[i] = sin((double)i) * (i % 7);
    for (int t = 0; t < 3; t++) {
        struct lanczos_options o = {BOTH, 1e-3, 40, 12, 1, NULL, NULL};
        omp_set_num_threads(t + 1);
        assert_int_equal(lanczos_ends(&s.op, &o, v[t], NULL, &r[t], NULL), OK);
        assert_true(r[t].restarts > 0 && r[t].largest.value == r[0].largest.value &&
                    r[t].largest.residual == r[0].largest.residual &&
                    r[t].smallest.value == r[0].smallest.value);
        assert_memory_equal(v[t], v[0], sizeof v[0]);
    }
    spectral_free(&s);
}

static void faults_end_the_search(void **state)
{
    (void)state;
    struct spectral s;
    struct lanczos_result r;
    struct err e = {0};
    make(&s, 300, 1.001, -1.001);
    struct lanczos_options o = {BOTH, 1e-5, 9, 5, 3, NULL, NULL};
    assert_int_equal(lanczos_ends(&s.op, &o, NULL, NULL, &r, NULL), OK);
    assert_true(!r.largest.converged && r.iterations == 9 && s.products == 9);
    s.fail_at = s.products + 7; /* after a restart */
    assert_int_equal(lanczos_ends(&s.op, &o, NULL, NULL, &r, &e), ERR_NUMERIC);
    assert_non_null(strstr(e.text, "product 7"));
    s.fail_at = s.products + 2;
    s.failure = ERR_IO;
    assert_int_equal(lanczos_ends(&s.op, &o, NULL, NULL, &r, NULL), ERR_IO);
    o.vectors = 3;
    assert_int_equal(lanczos_ends(&s.op, &o, NULL, NULL, &r, NULL), ERR_USAGE);
    s.op.space = space_alone(0);
    o.vectors = 4;
    assert_int_equal(lanczos_ends(&s.op, &o, NULL, NULL, &r, NULL), ERR_USAGE);
    spectral_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_separated_ends),
        cmocka_unit_test(finds_ends_in_clusters),
        cmocka_unit_test(ends_early_on_few_eigenvalues),
        cmocka_unit_test(small_spaces_are_exact),
        cmocka_unit_test(one_end_takes_no_more_products),
        cmocka_unit_test(finds_ends_of_real_hessians),
        cmocka_unit_test(same_bits_for_any_threads),
        cmocka_unit_test(faults_end_the_search),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

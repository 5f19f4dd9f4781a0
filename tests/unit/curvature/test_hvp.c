/* Gradients and Hessian-vector products against those of torch in f64, for every family, in the
 * program's f32 and in f64. REAL: f32 f64 */
#include "curvature/hvp_internal.h"
#include "hvp_fixture.h"
#include "math/linalg.h"

/* |x - y| is at most the tolerance times `scale`. */
static void close_to(double x, double y, double scale, const char *what)
{
    if (!(fabs(x - y) <= tolerance * scale))
        fail_msg("%s: %.12g, expected %.12g within %g of %g", what, x, y, tolerance, scale);
}

/* Norms of the parts of x against `norms`, relative to each part's norm but at least a thousandth
 * of the whole. */
static void check_norms(const struct hvp_fixture *f, const real *x, const char *answer)
{
    int64_t n;
    double *norms = hvp_answer(f, answer, &n), whole = norm(f->n, x);
    assert_int_equal(n, hvp_n_tensors(f->h));
    for (int64_t i = 0; i < n; i++) {
        const struct hvp_tensor *t = hvp_tensor(f->h, i);
        close_to(norm(t->elements, x + t->offset), norms[i], fmax(norms[i], 1e-3 * whole), t->name);
    }
    free(norms);
}

/* Stored elements (all of a tensor or its first rows): the difference relative to the norm of the
 * tensor's part. */
static int check_elements(const struct hvp_fixture *f, const real *x, const char *prefix)
{
    int found = 0;
    for (int64_t i = 0; i < hvp_n_tensors(f->h); i++) {
        const struct hvp_tensor *t = hvp_tensor(f->h, i);
        char name[300];
        int64_t n;
        snprintf(name, sizeof name, "%s.%s", prefix, t->name);
        double *want = hvp_answer(f, name, &n), apart = 0, whole = 0;
        if (!want) continue;
        bool narrow = safetensors_find(&f->answers, name)->dtype == DTYPE_F32;
        assert_true(n <= t->elements);
        for (int64_t k = 0; k < n; k++) {
            double d = (double)x[t->offset + k] - want[k];
            apart += d * d, whole += want[k] * want[k];
        }
        /* a reference rounded to f32 limits the accuracy */
        double floor = narrow ? 6e-8 / tolerance : 0;
        close_to(sqrt(apart), 0, sqrt(whole) * fmax(1, floor), name);
        free(want);
        found++;
    }
    return found;
}

/* A family without reference values from torch is tested by test_hvp_laws.c only. */
static void open_answered(struct hvp_fixture *f, const char *name, const char *answer)
{
    hvp_fixture_open(f, name, HVP_ALL);
    if (safetensors_find(&f->answers, answer)) return;
    hvp_fixture_close(f);
    skip();
}

/* Slices of positions that are no divisor of the whole. */
static void cut_head(struct hvp_fixture *f)
{
    f->h->rows = 7;
    assert_true(f->s.offset[f->s.n] % 7 != 0);
}

static void check_gradient(const char *name, bool sliced)
{
    struct hvp_fixture f;
    open_answered(&f, name, "grad_norms");
    if (sliced) cut_head(&f);
    real *g = hvp_vector(&f);
    double loss, alone;
    OK_OR_FAIL(hvp_gradient(f.h, g, &loss, e));
    OK_OR_FAIL(hvp_loss(f.h, &alone, e));
    assert_true(loss == alone);
    close_to(loss, hvp_answer_one(&f, "f64.loss"), 1e-2 * loss, "loss");
    check_norms(&f, g, "grad_norms");
    assert_true(check_elements(&f, g, "grad") >= 2);
    free(g);
    hvp_fixture_close(&f);
}

static void gradient(void **state)
{
    check_gradient(*state, false);
}

static void gradient_in_slices(void **state)
{
    check_gradient(*state, true);
}

/* All errors are relative to |v| |Hv|, because the sum v'Hv may be far smaller. */
static void check_products(const char *name, bool sliced, int salts)
{
    struct hvp_fixture f;
    open_answered(&f, name, "vhv");
    if (sliced) cut_head(&f);
    real *v = hvp_vector(&f), *hv = hvp_vector(&f);
    double *vhv = hvp_answer(&f, "vhv", NULL), *parts = hvp_answer(&f, "vhv_per_tensor", NULL);
    for (uint64_t salt = 0; salt < (uint64_t)salts; salt++) {
        hvp_probe(&f, salt, v);
        OK_OR_FAIL(hvp_apply(f.h, 1, (const real *const[]){v}, &hv, e));
        double scale = norm(f.n, v) * norm(f.n, hv);
        close_to(dot(f.n, v, hv), vhv[salt], scale, "v'Hv");
        if (salt > 0) continue;
        for (int64_t i = 0; i < hvp_n_tensors(f.h); i++) {
            const struct hvp_tensor *t = hvp_tensor(f.h, i);
            const real *p = v + t->offset, *q = hv + t->offset;
            close_to(dot(t->elements, p, q), parts[i], scale, t->name);
        }
        check_norms(&f, hv, "hv_norms");
        assert_true(check_elements(&f, hv, "hv") >= 2);
    }
    free(v);
    free(hv);
    free(vhv);
    free(parts);
    hvp_fixture_close(&f);
}

static void product(void **state)
{
    check_products(*state, false, 4);
}

static void product_in_slices(void **state)
{
    check_products(*state, true, 1);
}

/* A retained state has what the head's slices share too: the first product with it, and the next
 * ones, have the bits of one without. */
static void kept_in_slices(void **state)
{
    struct hvp_fixture f;
    hvp_fixture_open(&f, *state, HVP_ALL);
    cut_head(&f);
    real *v = hvp_vector(&f), *want = hvp_vector(&f), *hv = hvp_vector(&f);
    hvp_probe(&f, 0, v);
    OK_OR_FAIL(hvp_apply(f.h, 1, (const real *const[]){v}, &want, e));
    hvp_keep(f.h, true);
    for (int i = 0; i < 3; i++) {
        OK_OR_FAIL(hvp_apply(f.h, 1, (const real *const[]){v}, &hv, e));
        assert_memory_equal(hv, want, sizeof *hv * (size_t)f.n);
    }
    free(v);
    free(want);
    free(hv);
    hvp_fixture_close(&f);
}

/* The gradient on s with targets, by a new handle. */
static real *gradient_on(const struct hvp_fixture *f, const struct sequences *s,
                         const int32_t *targets)
{
    struct hvp *h;
    real *g = hvp_vector(f);
    OK_OR_FAIL(hvp_open(f->model, s, HVP_ALL, &h, e));
    OK_OR_FAIL(hvp_targets(h, targets, e));
    OK_OR_FAIL(hvp_gradient(h, g, NULL, e));
    hvp_close(h);
    return g;
}

/* One handle goes on with other tokens and targets in the memory of the first: the bits are those
 * of new handles; so are those of a product between. */
static void values_kept(void **state)
{
    struct hvp_fixture f;
    hvp_fixture_open(&f, *state, HVP_ALL);
    const int64_t T = f.s.offset[f.s.n];
    int32_t *ids = must_alloc(T, sizeof *ids);
    for (int64_t t = 0; t < T; t++) ids[t] = f.s.ids[T - 1 - t];
    struct sequences other = f.s;
    other.ids = ids;
    const struct sequences *const s[] = {&f.s, &other};
    int32_t *const targets[] = {ids, f.s.ids};
    real *want[2], *g = hvp_vector(&f), *v = hvp_vector(&f), *hv = hvp_vector(&f);
    for (int i = 0; i < 2; i++) want[i] = gradient_on(&f, s[i], targets[i]);
    hvp_probe(&f, 0, v);
    OK_OR_FAIL(hvp_targets(f.h, targets[0], e));
    f.h->chunk = 40;
    hvp_keep_values(f.h, true);
    OK_OR_FAIL(hvp_gradient(f.h, g, NULL, e)); /* in smaller chunks */
    assert_true(memcmp(g, want[0], sizeof *g * (size_t)f.n) != 0 || T <= 40);
    hvp_keep_values(f.h, false);
    f.h->chunk = HVP_CHUNK;
    hvp_keep_values(f.h, true);
    for (int i = 0; i < 4; i++) {
        OK_OR_FAIL(hvp_next(f.h, s[i % 2], targets[i % 2], e));
        OK_OR_FAIL(hvp_gradient(f.h, g, NULL, e));
        assert_memory_equal(g, want[i % 2], sizeof *g * (size_t)f.n);
        if (i == 1) OK_OR_FAIL(hvp_apply(f.h, 1, (const real *const[]){v}, &hv, e));
    }
    ids[0] = (int32_t)f.model->spec.shape.vocab;
    struct err err = {0};
    assert_int_equal(hvp_next(f.h, &other, f.s.ids, &err), ERR_FORMAT);
    free(ids), free(want[0]), free(want[1]), free(g), free(v), free(hv);
    hvp_fixture_close(&f);
}

#ifndef QTRAJ_REAL_F64
/* Largest errors with products in bf16 terms: of a part of the gradient and of Hv relative to that
 * part's norm (at least a thousandth of the whole), and of v'Hv relative to |v| |Hv|. Those of f32
 * for bf16x3; docs/math/products.md has the measured ones. */
static const struct kind {
    enum products products;
    double gradient, product, along;
} kinds[] = {{PRODUCTS_BF16X3, 1e-4, 1e-4, 1e-4},
             {PRODUCTS_BF16X2, 1e-4, 2e-4, 1e-6},
             {PRODUCTS_BF16, 6e-2, 6e-2, 1e-3}};

/* The largest error of norms that are within check_norms' tolerance in f32. */
static double norms_apart(const struct hvp_fixture *f, const real *x, const char *answer)
{
    double *norms = hvp_answer(f, answer, NULL), whole = norm(f->n, x), apart = 0;
    for (int64_t i = 0; i < hvp_n_tensors(f->h); i++) {
        const struct hvp_tensor *t = hvp_tensor(f->h, i);
        const double d = fabs(norm(t->elements, x + t->offset) - norms[i]);
        apart = fmax(apart, d / fmax(norms[i], 1e-3 * whole));
    }
    free(norms);
    return apart;
}

/* The distance of the stored elements from their references, relative to the norm of these. */
static double elements_apart(const struct hvp_fixture *f, const real *x, const char *prefix)
{
    double largest = 0;
    for (int64_t i = 0; i < hvp_n_tensors(f->h); i++) {
        const struct hvp_tensor *t = hvp_tensor(f->h, i);
        char name[300];
        int64_t n;
        snprintf(name, sizeof name, "%s.%s", prefix, t->name);
        double *want = hvp_answer(f, name, &n), apart = 0, whole = 0;
        for (int64_t k = 0; want && k < n; k++) {
            const double d = (double)x[t->offset + k] - want[k];
            apart += d * d, whole += want[k] * want[k];
        }
        if (whole > 0) largest = fmax(largest, sqrt(apart / whole));
        free(want);
    }
    return largest;
}

static void check_kind(const char *name, const struct kind *kind)
{
    struct hvp_fixture f;
    open_answered(&f, name, "vhv");
    hvp_multiply(f.h, kind->products);
    real *v = hvp_vector(&f), *hv = hvp_vector(&f);
    double *vhv = hvp_answer(&f, "vhv", NULL);
    OK_OR_FAIL(hvp_gradient(f.h, hv, NULL, e));
    const double g = fmax(norms_apart(&f, hv, "grad_norms"), elements_apart(&f, hv, "grad"));
    hvp_probe(&f, 0, v);
    OK_OR_FAIL(hvp_apply(f.h, 1, (const real *const[]){v}, &hv, e));
    const double p = fmax(norms_apart(&f, hv, "hv_norms"), elements_apart(&f, hv, "hv"));
    const double along = fabs(dot(f.n, v, hv) - vhv[0]) / (norm(f.n, v) * norm(f.n, hv));
    printf("%-20s %-6s gradient %.1e  Hv %.1e  v'Hv %.1e\n", name, products_words[kind->products],
           g, p, along);
    assert_true(g <= kind->gradient);
    assert_true(p <= kind->product);
    assert_true(along <= kind->along);
    if (kind->products == PRODUCTS_BF16) assert_true(g > 1e-3); /* it is not f32 by mistake */
    free(v);
    free(hv);
    free(vhv);
    hvp_fixture_close(&f);
}

static void product_in_terms(void **state)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) check_kind(*state, &kinds[i]);
}
#endif

static void add_up(void *sum, double products)
{
    *(double *)sum += products;
}

/* What a watcher is told adds up to one for a gradient and for each product. */
static void watched(void **state)
{
    (void)state;
    struct hvp_fixture f;
    hvp_fixture_open(&f, "llama", HVP_ALL);
    real *v[2] = {hvp_vector(&f), hvp_vector(&f)}, *hv[2] = {hvp_vector(&f), hvp_vector(&f)};
    double sum = 0;
    hvp_probe(&f, 0, v[0]);
    hvp_probe(&f, 1, v[1]);
    hvp_watch(f.h, add_up, &sum);
    OK_OR_FAIL(hvp_gradient(f.h, hv[0], NULL, e));
    assert_true(fabs(sum - 1) < 1e-9);
    OK_OR_FAIL(hvp_apply(f.h, 2, (const real *const *)v, hv, e));
    assert_true(fabs(sum - 3) < 1e-9);
    hvp_keep(f.h, true);
    OK_OR_FAIL(hvp_apply(f.h, 2, (const real *const *)v, hv, e));
    assert_true(fabs(sum - 5) < 1e-9);
    hvp_watch(f.h, NULL, NULL);
    OK_OR_FAIL(hvp_gradient(f.h, hv[0], NULL, e));
    assert_true(fabs(sum - 5) < 1e-9);
    for (int i = 0; i < 2; i++) {
        free(v[i]);
        free(hv[i]);
    }
    hvp_fixture_close(&f);
}

int main(void)
{
    linalg_setup();
    struct CMUnitTest tests[7 * FIXTURES_N + 1];
    size_t n = 0;
    EACH_FIXTURE(tests, n, gradient)
    EACH_FIXTURE(tests, n, product)
    EACH_FIXTURE(tests, n, gradient_in_slices)
    EACH_FIXTURE(tests, n, product_in_slices)
    EACH_FIXTURE(tests, n, kept_in_slices)
    EACH_FIXTURE(tests, n, values_kept)
#ifndef QTRAJ_REAL_F64
    EACH_FIXTURE(tests, n, product_in_terms)
#endif
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(watched);
    return _cmocka_run_group_tests("hvp", tests, n, NULL, NULL);
}

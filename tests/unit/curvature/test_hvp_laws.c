/* Properties of derivatives that hold for any values: symmetry, central differences, sums over
 * sequences, principal submatrices; and what results must not depend on. Sequences of unequal
 * length, longer than the tiles of attention, in all families. REAL: f32 f64 */
#include "curvature/hvp_internal.h"
#include "hvp_fixture.h"
#include "math/linalg.h"
#include "model/model_internal.h"

/* Lengths: no scored token, less than a tile of queries, a tile and more. */
static const int64_t lengths[] = {1, 30, 100, 2};
enum { LENGTHS_N = sizeof lengths / sizeof *lengths };

/* The fixture's model on our tokens. windows: its attention sees a window in all layers, so that
 * scratch arrays are sized for windows. */
static void open_ragged(struct hvp_fixture *f, const char *name, enum hvp_subset subset,
                        bool windows)
{
    int64_t tokens = 0;
    hvp_fixture_open(f, name, subset);
    hvp_close(f->h);
    sequences_free(&f->s);
    for (int i = 0; i < LENGTHS_N; i++) tokens += lengths[i];
    OK_OR_FAIL(sequences_init(&f->s, LENGTHS_N, tokens, 0, e));
    for (int i = 0; i < LENGTHS_N; i++) f->s.offset[i + 1] = f->s.offset[i] + lengths[i];
    for (int64_t t = 0; t < tokens; t++)
        f->s.ids[t] = (int32_t)(rng_bits(5, (uint64_t)t) % (uint64_t)model_shape(f->model)->vocab);
    for (int64_t i = 0; windows && i < model_shape(f->model)->layers; i++)
        f->model->spec.flags[i] |= LAYER_WINDOW;
    OK_OR_FAIL(hvp_open(f->model, &f->s, subset, &f->h, e));
    f->n = hvp_n(f->h);
}

static real *normals(const struct hvp_fixture *f, uint64_t stream)
{
    real *v = hvp_vector(f);
    for (int64_t i = 0; i < f->n; i++) {
        float x;
        rng_normals(stream, i, 1, &x);
        v[i] = (real)x;
    }
    return v;
}

static real *product_with(const struct hvp_fixture *f, const real *v)
{
    real *hv = hvp_vector(f);
    OK_OR_FAIL(hvp_apply(f->h, 1, &v, &hv, e));
    return hv;
}

static double distance(int64_t n, const real *x, const real *y)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        double d = (double)x[i] - (double)y[i];
        sum += d * d;
    }
    return sqrt(sum);
}

static void symmetric(void **state)
{
    struct hvp_fixture f;
    open_ragged(&f, *state, HVP_ALL, false);
    real *u = normals(&f, 1), *v = normals(&f, 2);
    real *hu = product_with(&f, u), *hv = product_with(&f, v);
    double scale = norm(f.n, u) * norm(f.n, hv), bound = sizeof(real) == 8 ? 1e-14 : 1e-6;
    assert_true(fabs(dot(f.n, u, hv) - dot(f.n, v, hu)) <= bound * scale);
    free(u);
    free(v);
    free(hu);
    free(hv);
    hvp_fixture_close(&f);
}

/* The quantity at weights + step v and weights - step v. */
static real *gradient_at(const struct hvp_fixture *f, const real *v, double step, double *loss)
{
    real *g = hvp_vector(f);
    hvp_move(f->h, v, (real)step);
    OK_OR_FAIL(hvp_gradient(f->h, g, loss, e));
    hvp_move(f->h, NULL, 0);
    return g;
}

/* In f32 the remaining error is the gradient's rounding divided by the step. Families whose
 * derivative is discontinuous (clipping, xIELU) may cross a jump; the long step of f32 would cross
 * many of clipping's, so clipping is skipped there. */
static void central_differences(const struct hvp_fixture *f, bool jumps)
{
    double step = sizeof(real) == 8 ? 1e-5 : 4e-3, up, down;
    double bound = sizeof(real) == 8 ? (jumps ? 1e-3 : 1e-6) : 2e-2;
    if (sizeof(real) == 4) f->model->spec.clip = 0;
    real *v = normals(f, 3), *zero = hvp_vector(f);
    for (int64_t i = 0; i < f->n; i++) v[i] *= (real)0.1;
    real *hv = product_with(f, v), *g = gradient_at(f, zero, 1, NULL);
    real *plus = gradient_at(f, v, step, &up), *minus = gradient_at(f, v, -step, &down);
    assert_true(fabs((up - down) / (2 * step) - dot(f->n, g, v)) <=
                bound * norm(f->n, g) * norm(f->n, v));
    for (int64_t i = 0; i < f->n; i++) plus[i] = (plus[i] - minus[i]) / (real)(2 * step);
    double apart = distance(f->n, plus, hv), whole = norm(f->n, hv);
    if (!(apart <= bound * whole)) fail_msg("apart by %g of %g", apart, whole);
    free(v);
    free(zero);
    free(hv);
    free(g);
    free(plus);
    free(minus);
}

static void agrees_with_differences(void **state)
{
    struct hvp_fixture f;
    open_ragged(&f, *state, HVP_ALL, false);
    central_differences(&f, strcmp(*state, "olmo") == 0 || strcmp(*state, "apertus") == 0);
    hvp_fixture_close(&f);
}

static void agrees_under_windows(void **state)
{
    (void)state;
    struct hvp_fixture f;
    open_ragged(&f, "olmo3", HVP_ALL, true);
    central_differences(&f, false);
    hvp_fixture_close(&f);
}

/* The loss of the program's forward pass, softmax in f64. */
static double plain_loss(const struct hvp_fixture *f)
{
    int64_t T = f->s.offset[f->s.n], C = model_shape(f->model)->hidden;
    int64_t V = model_shape(f->model)->vocab, scored = 0;
    float *x = must_alloc(T * C, sizeof *x), *z = must_alloc(V, sizeof *z);
    struct acts a;
    struct block b;
    double loss = 0;
    OK_OR_FAIL(model_acts_init(f->model, T, &a, e));
    OK_OR_FAIL(model_embed(f->model, &f->s, x, e));
    for (int64_t l = 0; l < model_shape(f->model)->layers; l++) {
        OK_OR_FAIL(model_block_load(f->model, l, &b, e));
        model_block_forward(f->model, &b, &f->s, x, &a);
        model_block_free(&b);
    }
    model_final_norm(f->model, x, T, x);
    for (int64_t i = 0; i < f->s.n; i++)
        for (int64_t t = f->s.offset[i]; t + 1 < f->s.offset[i + 1]; t++, scored++) {
            double sum = 0;
            for (int64_t k = 0; k < V; k++) {
                z[k] = 0;
                for (int64_t c = 0; c < C; c++)
                    z[k] += x[t * C + c] * model_head(f->model)[k * C + c];
                sum += exp((double)z[k]);
            }
            loss += log(sum) - (double)z[f->s.ids[t + 1]];
        }
    model_acts_free(&a);
    free(x);
    free(z);
    return loss / (double)scored;
}

static void loss_of_the_forward_pass(void **state)
{
    for (int64_t window = 0; window <= 20; window += 20) {
        struct hvp_fixture f;
        double loss;
        open_ragged(&f, *state, HVP_ALL, window);
        OK_OR_FAIL(hvp_loss(f.h, &loss, e));
        assert_true(fabs(loss - plain_loss(&f)) <= 1e-5 * loss);
        hvp_fixture_close(&f);
    }
}

/* Loss, gradient and products do not depend on the slices of the head. */
static void any_slices(void **state)
{
    enum { K = 2 };
    static const int64_t cuts[] = {30, 1, 13, 50};
    struct hvp_fixture f;
    open_ragged(&f, *state, HVP_ALL, false);
    const double bound = sizeof(real) == 8 ? 1e-13 : 2e-6;
    real *v[K], *whole[K], *hv[K], *g = hvp_vector(&f), *other = hvp_vector(&f);
    double loss, part;
    for (int i = 0; i < K; i++) {
        v[i] = normals(&f, (uint64_t)i);
        whole[i] = hvp_vector(&f);
        hv[i] = hvp_vector(&f);
    }
    OK_OR_FAIL(hvp_gradient(f.h, g, &loss, e));
    OK_OR_FAIL(hvp_apply(f.h, K, (const real *const *)v, whole, e));
    for (size_t c = 0; c < sizeof cuts / sizeof *cuts; c++) {
        f.h->rows = cuts[c];
        OK_OR_FAIL(hvp_gradient(f.h, other, &part, e));
        assert_true(fabs(part - loss) <= bound * loss);
        assert_true(distance(f.n, g, other) <= bound * norm(f.n, g));
        OK_OR_FAIL(hvp_loss(f.h, &loss, e));
        assert_true(loss == part);
        OK_OR_FAIL(hvp_apply(f.h, K, (const real *const *)v, hv, e));
        for (int i = 0; i < K; i++)
            assert_true(distance(f.n, whole[i], hv[i]) <= bound * norm(f.n, hv[i]));
    }
    for (int i = 0; i < K; i++) free(v[i]), free(whole[i]), free(hv[i]);
    free(g);
    free(other);
    hvp_fixture_close(&f);
}

/* Bit for bit: probes alone or together, any number of threads, activations retained or not. */
static void check_bits(const char *name, bool sliced)
{
    enum { K = 2 };
    const int usual = omp_get_max_threads();
    struct hvp_fixture f;
    open_ragged(&f, name, HVP_ALL, false);
    if (sliced) f.h->rows = 50;
    real *v[K], *alone[K], *hv[K];
    size_t bytes = (size_t)f.n * sizeof(real);
    f.h->chunk = 100;
    omp_set_num_threads(2);
    for (int i = 0; i < K; i++) {
        v[i] = normals(&f, (uint64_t)i);
        alone[i] = product_with(&f, v[i]);
        hv[i] = hvp_vector(&f);
    }
    for (int threads = 1; threads <= 3; threads += 2) {
        omp_set_num_threads(threads);
        hvp_keep(f.h, threads == 3);
        OK_OR_FAIL(hvp_apply(f.h, K, (const real *const *)v, hv, e));
        for (int i = 0; i < K; i++) assert_memory_equal(alone[i], hv[i], bytes);
    }
    hvp_keep(f.h, false);
    OK_OR_FAIL(hvp_gradient(f.h, alone[0], NULL, e));
    hvp_keep(f.h, true);
    OK_OR_FAIL(hvp_gradient(f.h, hv[0], NULL, e));
    assert_memory_equal(alone[0], hv[0], bytes);
    for (int i = 0; i < K; i++) free(v[i]), free(alone[i]), free(hv[i]);
    omp_set_num_threads(usual);
    hvp_fixture_close(&f);
}

static void same_bits(void **state)
{
    check_bits(*state, false);
    check_bits(*state, true);
}

/* A loss, its gradient and k products of it. */
struct derivatives {
    double loss;
    real *g, *hv[2];
};

static void derivatives_take(struct hvp_fixture *f, real *const v[2], struct derivatives *d)
{
    OK_OR_FAIL(hvp_loss(f->h, &d->loss, e));
    OK_OR_FAIL(hvp_gradient(f->h, d->g, NULL, e));
    OK_OR_FAIL(hvp_apply(f->h, 2, (const real *const *)v, d->hv, e));
}

/* One product before the gradient, and products after it. */
static void expect_derivatives(struct hvp_fixture *f, real *const v[2],
                               const struct derivatives *expected, struct derivatives *found)
{
    size_t bytes = (size_t)f->n * sizeof(real);
    OK_OR_FAIL(hvp_apply(f->h, 1, (const real *const *)&v[1], &found->hv[0], e));
    assert_memory_equal(expected->hv[1], found->hv[0], bytes);
    derivatives_take(f, v, found);
    assert_true(found->loss == expected->loss);
    assert_memory_equal(expected->g, found->g, bytes);
    for (int i = 0; i < 2; i++) assert_memory_equal(expected->hv[i], found->hv[i], bytes);
}

/* Bit for bit the same with retained activations, after anything that the loss depends on has
 * changed. */
static void check_kept(const char *name, enum hvp_subset subset, bool sliced)
{
    struct hvp_fixture f;
    struct derivatives there, moved, fewer, found;
    struct derivatives *all[] = {&there, &moved, &fewer, &found};
    open_ragged(&f, name, subset, 40);
    if (sliced) f.h->rows = 50;
    real *v[2] = {normals(&f, 1), normals(&f, 2)};
    for (int i = 0; i < 4; i++) {
        all[i]->g = hvp_vector(&f);
        for (int j = 0; j < 2; j++) all[i]->hv[j] = hvp_vector(&f);
    }
    int64_t scored = hvp_scored(f.h);
    f.h->chunk = 100;
    derivatives_take(&f, v, &there);
    hvp_move(f.h, v[0], (real)1e-3);
    derivatives_take(&f, v, &moved);
    hvp_move(f.h, NULL, 0);
    hvp_total(f.h, 3 * scored);
    derivatives_take(&f, v, &fewer);
    hvp_keep(f.h, true);
    expect_derivatives(&f, v, &fewer, &found);
    hvp_total(f.h, scored);
    expect_derivatives(&f, v, &there, &found);
    hvp_move(f.h, v[0], (real)1e-3);
    expect_derivatives(&f, v, &moved, &found);
    hvp_keep(f.h, false);
    expect_derivatives(&f, v, &moved, &found);
    for (int i = 0; i < 4; i++) free(all[i]->g), free(all[i]->hv[0]), free(all[i]->hv[1]);
    free(v[0]), free(v[1]);
    hvp_fixture_close(&f);
}

static void same_bits_kept(void **state)
{
    check_kept(*state, HVP_ALL, false);
}

static void same_bits_kept_of_subsets(void **state)
{
    (void)state;
    for (int subset = HVP_ALL + 1; subset < HVP_SUBSETS; subset++)
        check_kept("olmo2", (enum hvp_subset)subset, false);
    check_kept("olmo2", HVP_ALL, true);
}

/* No buffer of logits exceeds this size for any vocabulary, but for one position. */
static void slices_by_default(void **state)
{
    (void)state;
    const int64_t most = 1 << 25;
    for (int64_t vocab = 1; vocab < INT64_C(1) << 30; vocab += 1 + vocab / 3) {
        const int64_t rows = hvp_head_rows(vocab);
        assert_true(rows >= 1 && rows <= 1024 && (rows == 1 || rows * vocab <= most));
    }
}

/* The sequences distributed over handles with one common number of scored tokens; and other chunk
 * sizes. */
static void sums_over_sequences(void **state)
{
    struct hvp_fixture f;
    open_ragged(&f, *state, HVP_ALL, false);
    real *v = normals(&f, 1), *hv = product_with(&f, v), *sum = hvp_vector(&f);
    double loss, part, parts = 0, bound = sizeof(real) == 8 ? 1e-13 : 1e-5;
    OK_OR_FAIL(hvp_loss(f.h, &loss, e));
    f.h->chunk = 1;
    real *other = product_with(&f, v);
    assert_true(distance(f.n, hv, other) <= bound * norm(f.n, hv));
    for (int64_t r = 0; r < 3; r++) {
        static const int64_t begin[] = {0, 2, 2, LENGTHS_N}; /* one of them has none */
        struct sequences some = f.s;
        struct hvp *h;
        int64_t offset[LENGTHS_N + 1], first = begin[r];
        some.n = begin[r + 1] - first;
        for (int64_t i = 0; i <= some.n; i++) offset[i] = f.s.offset[first + i] - f.s.offset[first];
        some.offset = offset;
        some.ids = f.s.ids + f.s.offset[first];
        OK_OR_FAIL(hvp_open(f.model, &some, HVP_ALL, &h, e));
        assert_true(hvp_scored(h) < hvp_scored(f.h));
        hvp_total(h, hvp_scored(f.h));
        OK_OR_FAIL(hvp_apply(h, 1, (const real *const[]){v}, &other, e));
        OK_OR_FAIL(hvp_loss(h, &part, e));
        parts += part;
        for (int64_t i = 0; i < f.n; i++) sum[i] += other[i];
        hvp_close(h);
    }
    assert_true(fabs(parts - loss) <= 1e-12 * loss || sizeof(real) == 4);
    assert_true(fabs(parts - loss) <= 1e-6 * loss);
    assert_true(distance(f.n, hv, sum) <= bound * norm(f.n, hv));
    free(v);
    free(hv);
    free(sum);
    free(other);
    hvp_fixture_close(&f);
}

/* A subset's product equals its part of the whole product with a vector that is zero elsewhere. */
static void principal_submatrices(void **state)
{
    for (int s = HVP_MAT2D; s < HVP_SUBSETS; s++) {
        struct hvp_fixture all, sub;
        open_ragged(&all, *state, HVP_ALL, false);
        open_ragged(&sub, *state, (enum hvp_subset)s, false);
        assert_true(s == HVP_MAT2D ? sub.n <= all.n : sub.n < all.n); /* olmo: has matrices only */
        real *v = normals(&sub, 1), *wide = hvp_vector(&all), *back = hvp_vector(&sub);
        real *from = hvp_vector(&all), *w = hvp_vector(&sub);
        OK_OR_FAIL(hvp_weights(all.h, from, e));
        OK_OR_FAIL(hvp_weights(sub.h, w, e));
        for (int pass = 0; pass < 2; pass++) {
            if (pass == 1) from = product_with(&all, wide);
            for (int64_t i = 0, j = 0; i < hvp_n_tensors(all.h) && j < hvp_n_tensors(sub.h); i++) {
                const struct hvp_tensor *t = hvp_tensor(all.h, i), *u = hvp_tensor(sub.h, j);
                if (strcmp(t->name, u->name) != 0) continue;
                size_t bytes = (size_t)t->elements * sizeof(real);
                if (pass == 0) memcpy(wide + t->offset, v + u->offset, bytes);
                if (pass == 0) assert_memory_equal(from + t->offset, w + u->offset, bytes);
                memcpy(back + u->offset, from + t->offset, bytes);
                j++;
            }
            if (pass == 0) free(from);
        }
        real *hv = product_with(&sub, v);
        assert_true(distance(sub.n, hv, back) <=
                    (sizeof(real) == 8 ? 1e-14 : 1e-6) * norm(sub.n, hv));
        free(v);
        free(wide);
        free(back);
        free(from);
        free(w);
        free(hv);
        hvp_fixture_close(&all);
        hvp_fixture_close(&sub);
    }
}

static void what_cannot_be(void **state)
{
    (void)state;
    struct hvp_fixture f;
    struct err err = {0};
    struct hvp *h;
    double loss;
    open_ragged(&f, "llama", HVP_ALL, false);
    struct sequences lone = f.s;
    lone.n = 1; /* one token, none scored */
    OK_OR_FAIL(hvp_open(f.model, &lone, HVP_ALL, &h, e));
    assert_int_equal(hvp_loss(h, &loss, &err), ERR_USAGE);
    assert_non_null(strstr(err.text, "two tokens"));
    hvp_close(h);
    err_clear(&err);
    real *far = hvp_vector(&f), *g = hvp_vector(&f);
    for (int64_t i = 0; i < f.n; i++) far[i] = INFINITY;
    hvp_move(f.h, far, 1);
    assert_int_equal(hvp_gradient(f.h, g, NULL, &err), ERR_NUMERIC);
    assert_non_null(strstr(err.text, "loss is not finite"));
    free(far);
    free(g);
    err_clear(&err);
    hvp_move(f.h, NULL, 0);
    f.s.ids[40] = 256;
    assert_int_equal(hvp_open(f.model, &f.s, HVP_ALL, &h, &err), ERR_FORMAT);
    assert_non_null(strstr(err.text, "sequence 2, token 9: id 256"));
    struct checkpoint *c;
    struct model *m;
    err_clear(&err);
    OK_OR_FAIL(checkpoint_open(FIXTURES "/models/bitnet_packed", &c, e));
    OK_OR_FAIL(model_open(c, &m, e));
    assert_int_equal(hvp_open(m, &f.s, HVP_ALL, &h, &err), ERR_USAGE);
    assert_non_null(strstr(err.text, "rounded to 8 bits, which has no derivative"));
    model_close(m);
    checkpoint_close(c);
    hvp_fixture_close(&f);
}

/* Norms before and after, parallel residual, models whose only parameters are matrices, tied ones
 * with biases: what the head and the subsets of parameters depend on. */
static const char *const wirings[] = {"olmo2", "gpt_neox_parallel", "olmo", "opensci"};

int main(void)
{
    linalg_setup();
    struct CMUnitTest tests[9 * FIXTURES_N];
    size_t n = 0;
    EACH_FIXTURE_STEP(tests, n, symmetric, FIXTURES_STEP)
    EACH_FIXTURE_STEP(tests, n, agrees_with_differences, FIXTURES_STEP)
    EACH_FIXTURE_STEP(tests, n, loss_of_the_forward_pass, FIXTURES_STEP)
    EACH_FIXTURE_STEP(tests, n, sums_over_sequences, FIXTURES_STEP)
    for (int i = 0; i < 4; i++) {
        void *name = (void *)(uintptr_t)wirings[i];
        tests[n++] = (struct CMUnitTest)cmocka_unit_test_prestate(any_slices, name);
        tests[n++] = (struct CMUnitTest)cmocka_unit_test_prestate(principal_submatrices, name);
    }
    void *bitnet = (void *)(uintptr_t)bitnet_fixtures[0];
    tests[n++] = (struct CMUnitTest)cmocka_unit_test_prestate(symmetric, bitnet);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test_prestate(loss_of_the_forward_pass, bitnet);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(agrees_under_windows);
    if (sizeof(real) == 4) { /* the program's type: the order of sums is that of the same sources */
        EACH_FIXTURE_STEP(tests, n, same_bits, FIXTURES_STEP)
        EACH_FIXTURE_STEP(tests, n, same_bits_kept, FIXTURES_STEP)
        tests[n++] = (struct CMUnitTest)cmocka_unit_test(same_bits_kept_of_subsets);
    }
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(slices_by_default);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(what_cannot_be);
    return _cmocka_run_group_tests("laws of derivatives", tests, n, NULL, NULL);
}

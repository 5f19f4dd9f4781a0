/* Vectors distributed over ranks, simulated one rank after the other: a rank's part of gradient,
 * products and weights is the same part of the whole ones, bit for bit, however they are split.
 * Here every rank has all sequences, so that its sums are the whole ones. REAL: f32 f64 */
#include "curvature/hvp_internal.h"
#include "curvature/hvp_predict.h"
#include "hvp_fixture.h"
#include "math/linalg.h"

enum { K = 2 };

struct ranks {
    int64_t n, first, here; /* the whole vector; the rank's part */
    const real *mine[K];    /* its parts of the probes */
    const real *whole[K];   // (n) the probes
    int64_t brought, folded, largest;
    int64_t fail_at; /* call that fails; 0: none */
    int64_t calls;
};

static enum status gather(void *context, int64_t at, int64_t n, const real *mine, real *whole,
                          struct err *e)
{
    enum status st = OK;
    struct ranks *r = context;
    int probe = mine == r->mine[0] ? 0 : 1;
    if (++r->calls == r->fail_at) FAIL(ERR_PEER, "told to fail");
    assert_ptr_equal(mine, r->mine[probe]);
    memcpy(whole, r->whole[probe] + at, (size_t)n * sizeof *whole);
    r->brought += n;
    r->largest = n > r->largest ? n : r->largest;
done:
    return st;
}

static enum status reduce(void *context, int64_t at, int64_t n, real *whole, real *mine,
                          struct err *e)
{
    enum status st = OK;
    struct ranks *r = context;
    if (++r->calls == r->fail_at) FAIL(ERR_PEER, "told to fail");
    for (int64_t i = 0; i < n; i++)
        if (at + i >= r->first && at + i < r->first + r->here) mine[at + i - r->first] += whole[i];
    r->folded += n;
    r->largest = n > r->largest ? n : r->largest;
    memset(whole, 255, (size_t)n * sizeof *whole); /* NaN: must not be read again */
done:
    return st;
}

/* A tied matrix is the sum of its two uses, added in another order. */
static void expect_run(const struct hvp_fixture *f, const real *found, const real *whole,
                       int64_t first, int64_t n, const char *what)
{
    double scale = norm(f->n, whole) / sqrt((double)f->n);
    bool tied = model_shape(f->model)->tied;
    for (int64_t i = 0; i < n; i++) {
        double error = fabs((double)found[i] - (double)whole[first + i]);
        if (!(tied ? error <= (sizeof(real) < 8 ? 1e-5 : 1e-13) * scale : error == 0))
            fail_msg("%s %lld: %.9g, expected %.9g", what, (long long)(first + i), (double)found[i],
                     (double)whole[first + i]);
    }
}

static struct hvp_share share_of(struct ranks *r, int64_t n, int rank, int size)
{
    struct hvp_share share = {
        .space = space_cut(n, rank, size), .gather = gather, .reduce = reduce, .context = r};
    r->n = n;
    r->first = share.space.first;
    r->here = share.space.n;
    return share;
}

struct whole {
    real *v[K], *hv[K], *g, *w;
    double loss;
};

static void whole_init(struct hvp_fixture *f, struct whole *w)
{
    for (int j = 0; j < K; j++) {
        w->v[j] = hvp_vector(f);
        w->hv[j] = hvp_vector(f);
        hvp_probe(f, (uint64_t)j, w->v[j]);
    }
    w->g = hvp_vector(f);
    w->w = hvp_vector(f);
    OK_OR_FAIL(hvp_apply(f->h, K, (const real *const *)w->v, w->hv, e));
    OK_OR_FAIL(hvp_gradient(f->h, w->g, &w->loss, e));
    OK_OR_FAIL(hvp_weights(f->h, w->w, e));
}

static void whole_free(struct whole *w)
{
    for (int j = 0; j < K; j++) free(w->v[j]), free(w->hv[j]);
    free(w->g);
    free(w->w);
}

static void check_rank(struct hvp_fixture *f, const struct whole *w, int rank, int size)
{
    struct ranks r = {0};
    const struct hvp_share share = share_of(&r, f->n, rank, size);
    struct hvp *h;
    real *mine[2 * K + 1];
    double loss;
    OK_OR_FAIL(hvp_open(f->model, &f->s, HVP_ALL, &h, e));
    hvp_share_over(h, &share);
    h->rows = f->h->rows;
    for (int i = 0; i < 2 * K + 1; i++) mine[i] = must_alloc(r.here + 1, sizeof(real));
    for (int j = 0; j < K; j++) {
        memcpy(mine[j], w->v[j] + r.first, (size_t)r.here * sizeof(real));
        r.mine[j] = mine[j];
        r.whole[j] = w->v[j];
    }
    for (int kept = 0; kept < 2; kept++) {
        hvp_keep(h, kept);
        r.folded = r.brought = 0;
        OK_OR_FAIL(hvp_apply(h, K, (const real *const *)mine, mine + K, e));
        for (int j = 0; j < K; j++)
            expect_run(f, mine[K + j], w->hv[j], r.first, r.here, "product");
        /* Tangents are gathered twice, those outside the blocks once; sums are reduced once. */
        assert_true(r.folded >= K * f->n && r.brought > K * f->n && r.brought <= 2 * K * f->n);
        assert_true(r.largest < f->n);
    }
    OK_OR_FAIL(hvp_gradient(h, mine[2 * K], &loss, e));
    expect_run(f, mine[2 * K], w->g, r.first, r.here, "gradient");
    assert_true(loss == w->loss);
    OK_OR_FAIL(hvp_weights(h, mine[2 * K], e));
    for (int64_t i = 0; i < r.here; i++) assert_true(mine[2 * K][i] == w->w[r.first + i]);
    for (int i = 0; i < 2 * K + 1; i++) {
        assert_true(mine[i][r.here] == 0); /* nothing is written behind it */
        free(mine[i]);
    }
    hvp_close(h);
}

static void parts_of_the_whole(void **state)
{
    static const int sizes[] = {1, 2, 3, 7};
    struct hvp_fixture f;
    struct whole w;
    hvp_fixture_open(&f, *state, HVP_ALL);
    whole_init(&f, &w);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int rank = 0; rank<sizes[i]; rank += sizes[i]> 3 ? 3 : 1)
            check_rank(&f, &w, rank, sizes[i]);
    whole_free(&w);
    hvp_fixture_close(&f);
}

/* Of a subset: parameters outside it do not move and are neither sent nor stored. With more ranks
 * than elements some ranks have none. */
static void parameters_outside_a_subset_stay(void **state)
{
    (void)state;
    for (int subset = 0; subset < HVP_SUBSETS; subset++) {
        struct hvp_fixture f;
        hvp_fixture_open(&f, "tiny_llama", (enum hvp_subset)subset);
        const int sizes[] = {1, 3, (int)f.n + 2};
        real *v = hvp_vector(&f), *hv = hvp_vector(&f), *part = hvp_vector(&f);
        hvp_probe(&f, 4, v);
        OK_OR_FAIL(hvp_apply(f.h, 1, (const real *const[]){v}, &hv, e));
        for (int i = 0; i < 3; i++) {
            struct ranks r = {0};
            const struct hvp_share share = share_of(&r, f.n, sizes[i] - 1, sizes[i]);
            r.mine[0] = v + r.first;
            r.whole[0] = v;
            assert_true((r.here == 0) == (i == 2));
            hvp_share_over(f.h, &share);
            OK_OR_FAIL(hvp_apply(f.h, 1, &r.mine[0], &part, e));
            expect_run(&f, part, hv, r.first, r.here, hvp_subsets[subset]);
        }
        free(v);
        free(hv);
        free(part);
        hvp_fixture_close(&f);
    }
}

/* A prediction's sums over the ranks' parts add up to the whole. */
static void sums_of_parts_are_the_whole(void **state)
{
    (void)state;
    enum { SIZE = 3 };
    struct hvp_fixture f;
    struct prediction whole, part;
    double first = 0, second = 0, square = 0, diagonal = 0;
    hvp_fixture_open(&f, "llama", HVP_QUANTIZED);
    real *d = hvp_vector(&f), *g = hvp_vector(&f);
    hvp_probe(&f, 4, d);
    for (int64_t i = 0; i < f.n; i++) d[i] *= (real)1e-3;
    OK_OR_FAIL(hvp_gradient(f.h, g, NULL, e));
    OK_OR_FAIL(prediction_make(f.h, g, 1, (const real *const[]){d}, false, NULL, &whole, e));
    for (int rank = 0; rank < SIZE; rank++) {
        struct ranks r = {0};
        const struct hvp_share share = share_of(&r, f.n, rank, SIZE);
        r.mine[0] = d + r.first;
        r.whole[0] = d;
        hvp_share_over(f.h, &share);
        OK_OR_FAIL(prediction_make(f.h, g + r.first, 1, r.mine, false, NULL, &part, e));
        assert_int_equal(part.n_tensors, whole.n_tensors);
        first += part.first_order;
        second += part.second_order;
        square += part.squared_norm;
        for (int64_t t = 0; t < part.n_tensors; t++) diagonal += part.parts[t].second_order;
        prediction_free(&part);
    }
    assert_true(fabs(first - whole.first_order) <= 1e-12 * fabs(first));
    assert_true(fabs(second - whole.second_order) <= 1e-12 * fabs(second));
    assert_true(fabs(diagonal - whole.second_order) <= 1e-12 * fabs(second));
    assert_true(fabs(square - whole.squared_norm) <= 1e-12 * square);
    prediction_free(&whole);
    free(d);
    free(g);
    hvp_fixture_close(&f);
}

/* Whichever message of h's product fails, the call returns that failure, and h works again
 * afterwards. */
static void check_failures(struct hvp *h, struct ranks *r, real *hv)
{
    r->calls = 0;
    OK_OR_FAIL(hvp_apply(h, 1, r->mine, &hv, e));
    int64_t calls = r->calls;
    assert_true(calls >= 5);
    for (r->fail_at = 1; r->fail_at <= calls; r->fail_at++) {
        r->calls = 0;
        assert_int_equal(hvp_apply(h, 1, r->mine, &hv, NULL), ERR_PEER);
        assert_int_equal(r->calls, r->fail_at);
    }
    r->fail_at = 0;
    OK_OR_FAIL(hvp_apply(h, 1, r->mine, &hv, e));
}

static void a_failure_ends_all_ranks(void **state)
{
    (void)state;
    struct hvp_fixture f;
    struct ranks r = {0};
    hvp_fixture_open(&f, "tiny_gpt_neox", HVP_ALL);
    real *v = hvp_vector(&f), *hv = hvp_vector(&f), *again = hvp_vector(&f);
    const struct hvp_share share = share_of(&r, f.n, 1, 2);
    hvp_probe(&f, 4, v);
    r.mine[0] = v + r.first;
    r.whole[0] = v;
    hvp_share_over(f.h, &share);
    check_failures(f.h, &r, hv);
    /* Also before there are activations to retain. */
    hvp_keep(f.h, true);
    for (r.fail_at = 1; r.fail_at <= 5; r.fail_at++) {
        r.calls = 0;
        assert_int_equal(hvp_apply(f.h, 1, r.mine, &again, NULL), ERR_PEER);
    }
    r.fail_at = 0;
    check_failures(f.h, &r, again);
    assert_memory_equal(hv, again, (size_t)r.here * sizeof(real));
    hvp_move(f.h, v, 1);
    assert_int_equal(hvp_apply(f.h, 1, r.mine, &hv, NULL), ERR_USAGE);
    free(v);
    free(hv);
    free(again);
    hvp_fixture_close(&f);
}

int main(void)
{
    linalg_setup();
    struct CMUnitTest tests[FIXTURES_N + 3];
    size_t n = 0;
    EACH_FIXTURE_STEP(tests, n, parts_of_the_whole, FIXTURES_STEP)
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(parameters_outside_a_subset_stay);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(sums_of_parts_are_the_whole);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(a_failure_ends_all_ranks);
    return _cmocka_run_group_tests("hvp_share", tests, n, NULL, NULL);
}

/* Estimates on distributed vectors: the results of a single rank, the same bits on all ranks, with
 * and without restarts, with fewer elements than ranks. NP: 1 2 3 5 */
#include "curvature/density.h"
#include "curvature/lanczos.h"
#include "curvature/trace.h"
#include "curvature/vector.h"
#include "spectral.h"
#include <mpi.h>

static int rank, size;

/* The known operator with distributed vectors: each product gathers the whole vector. */
struct cut {
    struct spectral whole;
    struct operator op;
    float *x, *y; // (n)
    int sums;
};

static void sum(void *context, int64_t k, double *x)
{
    struct cut *c = context;
    c->sums++;
    MPI_Allreduce(MPI_IN_PLACE, x, (int)k, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static void gather(int64_t n, const float *mine, float *whole)
{
    for (int r = 0; r < size; r++) {
        const struct space s = space_cut(n, r, size);
        if (r == rank) memcpy(whole + s.first, mine, (size_t)s.n * sizeof *mine);
        MPI_Bcast(whole + s.first, (int)s.n, MPI_FLOAT, r, MPI_COMM_WORLD);
    }
}

static enum status apply(void *context, int64_t k, const float *const *x, float *const *y,
                         struct err *e)
{
    struct cut *c = context;
    const struct space *s = &c->op.space;
    enum status st = OK;
    for (int64_t j = 0; j < k && st == OK; j++) {
        gather(s->total, x[j], c->x);
        st = spectral_apply(&c->whole, 1, (const float *const[]){c->x}, &c->y, e);
        memcpy(y[j], c->y + s->first, (size_t)s->n * sizeof *c->y);
    }
    return st;
}

static float *floats(int64_t n)
{
    float *x = calloc((size_t)n + 1, sizeof *x);
    assert_non_null(x);
    return x;
}

static void cut_init(struct cut *c, int64_t n)
{
    spectral_init(&c->whole, n, 20, 1);
    for (int64_t i = 0; i < n; i++) c->whole.value[i] = i < 4 ? 40 - 9 * (double)i : sin((double)i);
    if (n > 4) c->whole.value[n - 1] = -15;
    c->op = (struct operator){.space = space_cut(n, rank, size), .apply = apply, .context = c};
    c->op.space.sum = sum;
    c->op.space.context = c;
    c->x = floats(n);
    c->y = floats(n);
    c->sums = 0;
}

static void cut_free(struct cut *c)
{
    spectral_free(&c->whole);
    free(c->x);
    free(c->y);
}

static void near(double x, double y, double error)
{
    if (!(fabs(x - y) <= error * (1 + fabs(y)))) fail_msg("%.12g, alone %.12g", x, y);
}

static void same_everywhere(double x)
{
    double ends[2] = {x, -x};
    MPI_Allreduce(MPI_IN_PLACE, ends, 2, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    assert_true(ends[0] == x && -ends[1] == x);
}

static void cuts_are_even_and_whole(void **state)
{
    (void)state;
    static const int64_t totals[] = {0, 1, 7, 1000003};
    for (int i = 0; i < 4; i++)
        for (int n = 1; n < 12; n++) {
            int64_t at = 0, most = 0;
            for (int r = 0; r < n; r++) {
                const struct space s = space_cut(totals[i], r, n);
                assert_true(s.first == at && s.n <= s.n_max && s.n >= s.n_max - 1);
                at += s.n;
                most = s.n > most ? s.n : most;
                int64_t begin = totals[i] / 3, end = totals[i] / 2;
                space_clip(&s, &begin, &end);
                assert_true(0 <= begin && begin <= end && end <= s.n);
            }
            assert_true(at == totals[i] && (n == 1 || most == space_cut(totals[i], 0, n).n_max));
        }
    const struct space s = {.total = 100, .first = 40, .n = 20};
    static const int64_t given[][4] = {
        {0, 100, 0, 20}, {45, 50, 5, 10}, {0, 40, 0, 0}, {60, 100, 20, 20}, {30, 45, 0, 5}};
    for (int i = 0; i < 5; i++) {
        int64_t begin = given[i][0], end = given[i][1];
        space_clip(&s, &begin, &end);
        assert_true(end - begin == given[i][3] - given[i][2]);
        assert_true(begin == given[i][2] || begin == end);
    }
}

/* Random vectors do not depend on how they are distributed; sums agree up to rounding. */
static void vectors_do_not_depend_on_the_cut(void **state)
{
    (void)state;
    enum { N = 100001 };
    struct cut c;
    const struct space alone = space_alone(N);
    cut_init(&c, N);
    const struct space *s = &c.op.space;
    float *x = floats(N), *y = floats(N), *mine = floats(s->n), *other = floats(s->n);
    const int64_t offset[] = {0, 10, 33334, 33334, 70000, N};
    double parts[5], whole[5];
    vector_signs(3, &alone, x);
    vector_signs(3, s, mine);
    assert_memory_equal(mine, x + s->first, (size_t)s->n * sizeof *x);
    vector_normals(4, &alone, y);
    vector_normals(4, s, other);
    assert_memory_equal(other, y + s->first, (size_t)s->n * sizeof *x);
    near(vector_dot(s, mine, other), vector_dot(&alone, x, y), 1e-12);
    near(vector_norm(s, other), vector_norm(&alone, y), 1e-12);
    near(vector_distance(s, mine, 0.5, other), vector_distance(&alone, x, 0.5, y), 1e-12);
    vector_part_dots(s, 5, offset, mine, other, parts);
    vector_part_dots(&alone, 5, offset, x, y, whole);
    for (int i = 0; i < 5; i++) near(parts[i], whole[i], 1e-12);
    assert_true(parts[2] == 0);
    double mine_alone[2] = {rank + 0.1, -3};
    space_agree(s, 2, mine_alone);
    assert_true(mine_alone[0] == 0.1 && mine_alone[1] == -3);
    assert_int_equal(vector_start(9, s, mine, other, NULL), OK);
    assert_int_equal(vector_start(9, &alone, x, y, NULL), OK);
    for (int64_t i = 0; i < s->n; i++) near(other[i], y[s->first + i], 1e-9);
    free(x);
    free(y);
    free(mine);
    free(other);
    cut_free(&c);
}

static void check_lanczos(struct cut *c, int64_t stored)
{
    const struct space *s = &c->op.space;
    struct lanczos_options o = {
        LANCZOS_LARGEST | LANCZOS_SMALLEST, 1e-5, 300, stored, 1, NULL, NULL};
    struct lanczos_result cut, alone;
    float *mine = floats(s->n), *whole = floats(s->total);
    assert_int_equal(lanczos_ends(&c->op, &o, mine, NULL, &cut, NULL), OK);
    assert_int_equal(lanczos_ends(&c->whole.op, &o, whole, NULL, &alone, NULL), OK);
    near(cut.largest.value, alone.largest.value, 1e-6);
    near(cut.smallest.value, alone.smallest.value, 1e-6);
    assert_true(cut.largest.converged && cut.smallest.converged);
    assert_true((cut.restarts > 0) == (alone.restarts > 0));
    same_everywhere(cut.largest.value);
    same_everywhere((double)cut.iterations);
    double sign = 0;
    for (int64_t i = 0; i < s->n; i++) sign += mine[i] * whole[s->first + i];
    MPI_Allreduce(MPI_IN_PLACE, &sign, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    near(fabs(sign), 1, 1e-4);
    free(mine);
    free(whole);
}

static void eigenvalues_do_not_depend_on_the_cut(void **state)
{
    (void)state;
    static const int64_t numbers[] = {2, 3, 100, 500};
    for (int i = 0; i < 4; i++) {
        struct cut c;
        cut_init(&c, numbers[i]);
        check_lanczos(&c, 200);
        check_lanczos(&c, 8);
        struct power_options o = {POWER_RESIDUAL, 1e-4, 400, 1, NULL, NULL};
        struct power_result cut, alone;
        float *v = floats(numbers[i]);
        assert_int_equal(power_iterate(&c.op, &o, v, &cut, NULL), OK);
        assert_int_equal(power_iterate(&c.whole.op, &o, v, &alone, NULL), OK);
        near(cut.top.value, alone.top.value, 1e-6);
        same_everywhere(cut.top.value);
        free(v);
        cut_free(&c);
    }
}

static void traces_do_not_depend_on_the_cut(void **state)
{
    (void)state;
    enum { N = 300 };
    static const int64_t offset[] = {0, 1, 100, 101, 250, N};
    struct cut c;
    cut_init(&c, N);
    for (int plus = 0; plus < 2; plus++) {
        struct trace_options o = {
            .probes = 30, .together = 4, .seed = 3, .hutchpp = plus, .parts = {5, offset}};
        struct trace_estimate cut, alone;
        assert_int_equal(trace_estimate(&c.op, &o, &cut, NULL), OK);
        assert_int_equal(trace_estimate(&c.whole.op, &o, &alone, NULL), OK);
        near(cut.mean, alone.mean, 1e-5);
        near(cut.error, alone.error, 1e-4);
        for (int t = 0; t < 5; t++) near(cut.part[t], alone.part[t], 1e-4);
        assert_int_equal(cut.products, alone.products);
        same_everywhere(cut.mean);
        trace_estimate_free(&cut);
        trace_estimate_free(&alone);
    }
    cut_free(&c);
}

/* Memory is per rank: several ranks store all vectors where one cannot. */
static void more_ranks_store_more_vectors(void **state)
{
    (void)state;
    enum { N = 200, STEPS = 20 };
    struct cut c;
    cut_init(&c, N);
    struct density_options o = {2, STEPS, 5, 0};
    struct density cut, alone;
    assert_int_equal(density_estimate(&c.op, &o, &cut, NULL), OK);
    assert_int_equal(density_estimate(&c.whole.op, &o, &alone, NULL), OK);
    for (int r = 0; r < 2; r++) {
        double moment[2] = {0};
        assert_int_equal(cut.count[r], alone.count[r]);
        for (int64_t i = r * STEPS; i < r * STEPS + cut.count[r]; i++) {
            moment[0] += cut.weight[i] * cut.node[i] * cut.node[i];
            moment[1] += alone.weight[i] * alone.node[i] * alone.node[i];
        }
        near(moment[0], moment[1], 1e-5);
        near(cut.node[r * STEPS + cut.count[r] - 1], alone.node[r * STEPS + cut.count[r] - 1],
             1e-5);
    }
    density_free(&cut);
    density_free(&alone);
    o.memory = (STEPS + 1) * (N / 2 + 1) * (int64_t)sizeof(float);
    assert_int_equal(density_estimate(&c.op, &o, &cut, NULL), OK);
    assert_true(cut.orthogonal == (size > 1));
    density_free(&cut);
    cut_free(&c);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cuts_are_even_and_whole),
        cmocka_unit_test(vectors_do_not_depend_on_the_cut),
        cmocka_unit_test(eigenvalues_do_not_depend_on_the_cut),
        cmocka_unit_test(traces_do_not_depend_on_the_cut),
        cmocka_unit_test(more_ranks_store_more_vectors),
    };
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int failed = cmocka_run_group_tests_name("space", tests, NULL, NULL);
    MPI_Finalize();
    return failed;
}

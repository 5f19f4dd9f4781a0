/* plane: coordinates and coefficients against points constructed here, the Gram matrix against one
 * summed over whole tensors. */
#include "curvature/plane.h"
#include "util/rng.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { DIM = 40, POINTS_MAX = 8 };

static void gram_of(double x[][DIM], int n, double *gram)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            gram[i * n + j] = 0;
            for (int k = 0; k < DIM; k++)
                gram[i * n + j] += (x[i][k] - x[0][k]) * (x[j][k] - x[0][k]);
        }
}

static void random_points(double x[][DIM], int n, uint64_t stream)
{
    float row[DIM];
    for (int i = 0; i < n; i++) {
        rng_normals(stream, i * DIM, DIM, row);
        for (int k = 0; k < DIM; k++) x[i][k] = 100 + (i + 1) * (double)row[k];
    }
}

/* The point of the plane at (a, b). */
static void point_at(const struct plane *p, double x[][DIM], double a, double b, double *out)
{
    double c[POINTS_MAX];
    plane_coefficients(p, a, b, c);
    for (int k = 0; k < DIM; k++) {
        out[k] = 0;
        for (int i = 0; i < p->n; i++) out[k] += c[i] * x[i][k];
    }
}

static double distance(const double *x, const double *y)
{
    double sum = 0;
    for (int k = 0; k < DIM; k++) sum += (x[k] - y[k]) * (x[k] - y[k]);
    return sqrt(sum);
}

/* The axes are orthonormal: distances in the plane equal those in weight space. */
static void check_lengths(const struct plane *p, double x[][DIM])
{
    const double at[][2] = {{0, 0}, {3, 0}, {0, 4}, {-1.5, 2.25}, {20, -7}};
    double a[DIM], b[DIM];
    for (size_t i = 0; i < 5; i++)
        for (size_t j = 0; j < i; j++) {
            point_at(p, x, at[i][0], at[i][1], a);
            point_at(p, x, at[j][0], at[j][1], b);
            double want = hypot(at[i][0] - at[j][0], at[i][1] - at[j][1]);
            assert_true(fabs(distance(a, b) - want) < 1e-10 * want);
        }
}

static void three_points_span_the_plane(void **state)
{
    (void)state;
    double x[3][DIM], gram[9], c[3];
    struct plane p = {0};
    struct err e = {0};
    random_points(x, 3, 1);
    gram_of(x, 3, gram);
    assert_int_equal(plane_of_three(gram, &p, &e), OK);
    check_lengths(&p, x);
    assert_true(p.at[0][0] == 0 && p.at[1][0] == 0 && p.at[1][1] == 0 && p.at[1][2] > 0);
    for (int i = 0; i < 3; i++) {
        plane_coefficients(&p, p.at[0][i], p.at[1][i], c);
        for (int j = 0; j < 3; j++) assert_true(fabs(c[j] - (i == j)) < 1e-13);
    }
    plane_free(&p);
}

static void principal_axes_keep_the_most(void **state)
{
    (void)state;
    enum { N = 6 };
    double x[N][DIM], gram[N * N], mean[DIM] = {0}, a[DIM], kept = 0, all = 0;
    struct plane p = {0};
    struct err e = {0};
    random_points(x, N, 2);
    gram_of(x, N, gram);
    assert_int_equal(plane_principal(gram, N, &p, &e), OK);
    check_lengths(&p, x);
    for (int i = 0; i < N; i++)
        for (int k = 0; k < DIM; k++) mean[k] += x[i][k] / N;
    point_at(&p, x, 0, 0, a);
    assert_true(distance(a, mean) < 1e-10);
    for (int i = 0; i < N; i++) {
        /* A point's projection is the nearest point of the plane: the residual is orthogonal. */
        point_at(&p, x, p.at[0][i], p.at[1][i], a);
        double hypotenuse = distance(x[i], mean), leg = distance(a, mean), rest = distance(x[i], a);
        assert_true(fabs(hypotenuse * hypotenuse - leg * leg - rest * rest) <
                    1e-10 * hypotenuse * hypotenuse);
        kept += leg * leg;
        all += hypotenuse * hypotenuse;
    }
    assert_true(fabs(kept / all - p.share[0] - p.share[1]) < 1e-12);
    assert_true(p.share[0] >= p.share[1]);
    for (int k = 0; k < 2; k++) assert_true(p.at[k][N - 1] > p.at[k][0]);
    plane_free(&p);
}

static void points_on_a_line_are_refused(void **state)
{
    (void)state;
    double x[4][DIM], gram[16];
    struct plane p = {0};
    struct err e = {0};
    random_points(x, 4, 3);
    for (int i = 2; i < 4; i++)
        for (int k = 0; k < DIM; k++) x[i][k] = x[0][k] + i * (x[1][k] - x[0][k]);
    gram_of(x, 3, gram);
    assert_int_equal(plane_of_three(gram, &p, &e), ERR_NUMERIC);
    assert_non_null(strstr(e.text, "line"));
    err_clear(&e);
    gram_of(x, 4, gram);
    assert_int_equal(plane_principal(gram, 4, &p, &e), ERR_NUMERIC);
    err_clear(&e);
    memset(gram, 0, sizeof gram);
    assert_int_equal(plane_of_three(gram, &p, &e), ERR_NUMERIC);
    err_clear(&e);
    assert_int_equal(plane_principal(gram, 2, &p, &e), ERR_USAGE);
}

static void the_gram_matrix_is_that_of_the_weights(void **state)
{
    (void)state;
    static const char *const names[] = {"step000100", "step000500", "step001200"};
    struct checkpoint *c[3];
    float *w[3];
    double gram[9], want[9] = {0};
    struct err e = {0};
    char path[512];
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/quickstart/trajectory/%s", CONFIGS, names[i]);
        assert_int_equal(checkpoint_open(path, &c[i], &e), OK);
    }
    for (int64_t t = 0; t < checkpoint_n_tensors(c[0]); t++) {
        const struct tensor_entry *entry = checkpoint_tensor(c[0], t);
        for (int i = 0; i < 3; i++) {
            w[i] = malloc((size_t)entry->n_elements * sizeof *w[i]);
            assert_int_equal(
                checkpoint_read_f32(c[i], entry->name, entry->n_dims, entry->shape, w[i], &e), OK);
        }
        for (int i = 0; i < 3; i++)
            for (int j = 0; j < 3; j++)
                for (int64_t k = 0; k < entry->n_elements; k++)
                    want[3 * i + j] +=
                        ((double)w[i][k] - (double)w[0][k]) * ((double)w[j][k] - (double)w[0][k]);
        for (int i = 0; i < 3; i++) free(w[i]);
    }
    assert_int_equal(plane_gram((const struct checkpoint *const *)c, 3, gram, &e), OK);
    for (int i = 0; i < 9; i++) assert_true(fabs(gram[i] - want[i]) <= 1e-12 * want[8]);
    assert_true(want[4] > 0 && want[8] > 0);
    for (int i = 0; i < 3; i++) checkpoint_close(c[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(three_points_span_the_plane),
        cmocka_unit_test(principal_axes_keep_the_most),
        cmocka_unit_test(points_on_a_line_are_refused),
        cmocka_unit_test(the_gram_matrix_is_that_of_the_weights),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

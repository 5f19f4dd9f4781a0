#include "math/eigen.h"
#include "util/rng.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { N = 40 };

static void check(int64_t n, const double *a, const double *w, const double *v)
{
    for (int64_t j = 0; j < n; j++) {
        if (j) assert_true(w[j - 1] <= w[j]);
        for (int64_t i = 0; i < n; i++) {
            double product = 0, other = 0;
            for (int64_t k = 0; k < n; k++) product += a[i * n + k] * v[j * n + k];
            for (int64_t k = 0; k < n; k++) other += v[i * n + k] * v[j * n + k];
            assert_true(fabs(product - w[j] * v[j * n + i]) < 1e-12 * (double)n);
            assert_true(fabs(other - (i == j)) < 1e-13 * (double)n);
        }
    }
}

static void eigenpairs_of_symmetric_matrices(void **state)
{
    (void)state;
    static double a[N * N], v[N * N], w[N];
    float x[N];
    for (int64_t n = 1; n <= N; n += 13) {
        for (int64_t i = 0; i < n; i++) {
            rng_normals(3, i * N, i + 1, x);
            for (int64_t j = 0; j <= i; j++) a[i * n + j] = a[j * n + i] = x[j];
        }
        memcpy(v, a, sizeof v);
        /* Only the upper triangle is read. */
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < i; j++) v[i * n + j] = 99;
        assert_int_equal(symmetric_eigen(n, v, w, NULL), OK);
        check(n, a, w, v);
    }
}

/* -1, 2, -1: eigenvalues 2 - 2 cos(pi k / (n + 1)). */
static void eigenvalues_of_a_known_matrix(void **state)
{
    (void)state;
    static double a[N * N], d[N], b[N], z[N * N], bare[N];
    for (int64_t n = 1; n <= N; n += 13) {
        memset(a, 0, sizeof a);
        for (int64_t i = 0; i < n; i++) {
            a[i * n + i] = d[i] = bare[i] = 2;
            if (i) a[i * n + i - 1] = a[(i - 1) * n + i] = -1;
            b[i] = -1;
        }
        assert_int_equal(tridiagonal_eigen(n, d, b, z, NULL), OK);
        check(n, a, d, z);
        for (int64_t i = 0; i < n; i++) b[i] = -1;
        assert_int_equal(tridiagonal_eigen(n, bare, b, NULL, NULL), OK);
        for (int64_t k = 0; k < n; k++) {
            double want = 2 - 2 * cos(acos(-1) * (double)(k + 1) / (double)(n + 1));
            assert_true(fabs(d[k] - want) < 1e-13 && fabs(bare[k] - want) < 1e-13);
        }
    }
}

static void matrices_that_are_not_finite_are_refused(void **state)
{
    (void)state;
    double a[4] = {1, NAN, NAN, 1}, w[2], d[2] = {1, 2}, b[1] = {INFINITY};
    struct err e = {0};
    assert_int_equal(symmetric_eigen(2, a, w, &e), ERR_NUMERIC);
    assert_non_null(strstr(e.text, "not finite"));
    assert_int_equal(tridiagonal_eigen(2, d, b, NULL, NULL), ERR_NUMERIC);
    assert_int_equal(symmetric_eigen(0, a, w, NULL), OK);
}

/* What a sum of products leaves of a: |a|² minus the squares of the largest singular values. */
static void low_ranks_leave_least(void **state)
{
    (void)state;
    static const int64_t shapes[][2] = {{17, 17}, {30, 11}, {11, 30}, {1, 9}};
    for (int k = 0; k < 8; k++) {
        const int64_t rows = shapes[k % 4][0], cols = shapes[k % 4][1],
                      n = rows < cols ? rows : cols;
        double a[N * N], g[N * N] = {0}, w[N], left[N * N], right[N * N], most = 0;
        float x[N * N];
        rng_normals(5, k * N * N, rows * cols, x);
        /* Once with rows that repeat: of rank 3. */
        for (int64_t i = 0; i < rows * cols; i++)
            a[i] = (double)x[k < 4 ? i : i / cols % 3 * cols + i % cols];
        for (int64_t i = 0; i < cols * cols; i++)
            for (int64_t r = 0; r < rows; r++)
                g[i] += a[r * cols + i / cols] * a[r * cols + i % cols];
        assert_int_equal(symmetric_eigen(cols, g, w, NULL), OK);
        for (int64_t rank = 0; rank <= n; rank++) {
            double rest = 0, want = 0;
            assert_int_equal(low_rank(rows, cols, a, rank, left, right, NULL), OK);
            for (int64_t i = 0; i < rows * cols; i++) {
                double d = a[i];
                for (int64_t r = 0; r < rank; r++)
                    d -= left[r * rows + i / cols] * right[r * cols + i % cols];
                rest += d * d;
            }
            for (int64_t j = 0; j < cols - rank; j++) want += fmax(w[j], 0);
            most = fmax(most, want);
            assert_true(fabs(rest - want) < 1e-12 * most);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(eigenpairs_of_symmetric_matrices),
        cmocka_unit_test(eigenvalues_of_a_known_matrix),
        cmocka_unit_test(low_ranks_leave_least),
        cmocka_unit_test(matrices_that_are_not_finite_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

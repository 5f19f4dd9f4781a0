/* The sgemm wrappers against plain loops, with pitches wider than the rows. */
#include "math/linalg.h"
#include "util/mem.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static float value_at(int64_t i)
{
    return sinf((float)(i * 37 % 1013)) + 0.01f * (float)(i % 7);
}

static float *matrix(int64_t n, int64_t salt)
{
    float *x;
    assert_int_equal(mem_zero(&x, n, sizeof *x, "a matrix", NULL), OK);
    for (int64_t i = 0; i < n; i++) x[i] = value_at(i + salt * 5003);
    return x;
}

struct shape {
    int64_t T, n, k;
};

static const struct shape shapes[] = {{1, 1, 1},    {3, 5, 7},    {1, 33, 64},
                                      {17, 1, 300}, {64, 48, 96}, {130, 65, 31}};

enum { N_SHAPES = sizeof shapes / sizeof *shapes, PAD = 3, LONG = 512 };

/* y_tj = sum over k of x(t, k) b(k, j) by strides, in f64. The error of a sum in f32 may be k 2^-24
 * (Higham, Accuracy and Stability of Numerical Algorithms, section 3.1), and is 1e-6 where BLAS
 * sums in blocks. */
static void product_check(const float *y, int64_t ldy, const float *x, int64_t xt, int64_t xk,
                          const float *b, int64_t bk, int64_t bj, struct shape s, float before)
{
    for (int64_t t = 0; t < s.T; t++)
        for (int64_t j = 0; j < s.n; j++) {
            double sum = 0, size = 0;
            for (int64_t k = 0; k < s.k; k++) {
                double term = (double)x[t * xt + k * xk] * (double)b[k * bk + j * bj];
                sum += term;
                size += fabs(term);
            }
            const double bound = s.k < LONG ? 1e-6 : (double)s.k * 0x1p-24;
            assert_true(fabs((double)y[t * ldy + j] - sum - (double)before) < bound * (size + 1));
        }
}

static void products_are_those_of_loops(void **state)
{
    (void)state;
    for (int i = 0; i < N_SHAPES; i++) {
        struct shape s = shapes[i];
        int64_t ldy = s.n + PAD, ldx = s.k + PAD, lda = s.T + PAD, ldw = s.k + PAD, ldb = s.n + PAD;
        float *y = matrix(s.T * ldy, 1), *x = matrix(s.T * ldx, 2), *w = matrix(s.n * ldw, 3);
        float *b = matrix(s.k * ldb, 4), *a = matrix(s.k * lda, 5);
        y[s.n] = 42;
        mat_gemm(MAT_NT, y, ldy, x, ldx, w, ldw, s.T, s.n, s.k, 0);
        product_check(y, ldy, x, ldx, 1, w, 1, ldw, s, 0);
        mat_gemm(MAT_NN, y, ldy, x, ldx, b, ldb, s.T, s.n, s.k, 0);
        product_check(y, ldy, x, ldx, 1, b, ldb, 1, s, 0);
        mat_gemm(MAT_TN, y, ldy, a, lda, b, ldb, s.T, s.n, s.k, 0);
        product_check(y, ldy, a, 1, lda, b, ldb, 1, s, 0);
        for (int64_t t = 0; t < s.T; t++)
            for (int64_t j = 0; j < s.n; j++) y[t * ldy + j] = 0.5f;
        mat_gemm(MAT_NN, y, ldy, x, ldx, b, ldb, s.T, s.n, s.k, 1);
        product_check(y, ldy, x, ldx, 1, b, ldb, 1, s, 0.5f);
        for (int64_t t = 0; t < s.T; t++)
            for (int64_t j = 0; j < s.n; j++) y[t * ldy + j] = 0.5f;
        mat_gemm(MAT_TN, y, ldy, a, lda, b, ldb, s.T, s.n, s.k, 1);
        product_check(y, ldy, a, 1, lda, b, ldb, 1, s, 0.5f);
        assert_true(y[s.n] == 42); /* the padding of a row is not written */
        free(y), free(x), free(w), free(b), free(a);
    }
}

/* Large products of rows without gaps, which oneDNN computes where it is faster: the same sums
 * whatever the pitch of y, added to or not, and the same bits for any number of threads. */
static void large_products_at_any_pitch_and_threads(void **state)
{
    static const struct shape large[] = {{33, 517, 300}, {256, 256, 64}, {333, 129, 517}};
    (void)state;
    for (size_t i = 0; i < sizeof large / sizeof *large; i++) {
        const struct shape s = large[i];
        const int64_t ldy = s.n + PAD;
        float *x = matrix(s.T * s.k, 1), *w = matrix(s.n * s.k, 2);
        float *y = matrix(s.T * ldy, 3), *dense = matrix(s.T * s.n, 4);
        for (int64_t j = 0; j < s.T * ldy; j++) y[j] = NAN;
        for (int64_t j = 0; j < s.T * s.n; j++) dense[j] = NAN;
        mat_gemm(MAT_NT, y, ldy, x, s.k, w, s.k, s.T, s.n, s.k, 0);
        product_check(y, ldy, x, s.k, 1, w, 1, s.k, s, 0);
        for (int64_t t = 0; t < s.T * PAD; t++)
            assert_true(isnan(y[t / PAD * ldy + s.n + t % PAD]));
#pragma omp parallel num_threads(3)
#pragma omp single
        mat_gemm(MAT_NT, dense, s.n, x, s.k, w, s.k, s.T, s.n, s.k, 0);
        for (int64_t t = 0; t < s.T; t++)
            assert_memory_equal(dense + t * s.n, y + t * ldy, (size_t)s.n * sizeof *y);
        for (int64_t t = 0; t < s.T; t++)
            for (int64_t j = 0; j < s.n; j++) y[t * ldy + j] = dense[t * s.n + j] = 0.5f;
        mat_gemm(MAT_NT, y, ldy, x, s.k, w, s.k, s.T, s.n, s.k, 1);
        product_check(y, ldy, x, s.k, 1, w, 1, s.k, s, 0.5f);
        mat_gemm(MAT_NT, dense, s.n, x, s.k, w, s.k, s.T, s.n, s.k, 1);
        product_check(dense, s.n, x, s.k, 1, w, 1, s.k, s, 0.5f);
        mat_gemm(MAT_NN, y, ldy, x, s.k, w, s.n, s.T, s.n, s.k, 0);
        product_check(y, ldy, x, s.k, 1, w, s.n, 1, s, 0);
        free(y), free(dense), free(x), free(w);
    }
}

/* beta 0 must not read y, which may hold NaN. No terms give zeros; empty results write nothing. */
static void beta_0_reads_nothing(void **state)
{
    (void)state;
    float y[2] = {NAN, NAN}, x[4] = {1, 2, 3, 4}, w[2] = {5, 6};
    mat_gemm(MAT_NT, y, 1, x, 2, w, 2, 2, 1, 2, 0);
    assert_true(y[0] == 17 && y[1] == 39);
    y[0] = NAN;
    mat_gemm(MAT_NN, y, 1, x, 2, w, 1, 2, 1, 2, 0);
    assert_true(y[0] == 17 && y[1] == 39);
    mat_gemm(MAT_TN, y, 1, x, 1, w, 1, 1, 1, 0, 0);
    assert_true(y[0] == 0);
    mat_gemm(MAT_NT, NULL, 1, x, 2, w, 2, 0, 1, 2, 0);
    mat_gemm(MAT_NN, NULL, 1, x, 2, w, 1, 2, 0, 2, 0);
}

static void the_name_has_version_and_kernel(void **state)
{
    (void)state;
    const char *name = linalg_blas_name();
    assert_int_equal(strncmp(name, "OpenBLAS ", 9), 0);
    assert_non_null(strchr(name + 9, ' ')); /* a version and a kernel */
    assert_ptr_equal(name, linalg_blas_name());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_are_those_of_loops),
        cmocka_unit_test(large_products_at_any_pitch_and_threads),
        cmocka_unit_test(beta_0_reads_nothing),
        cmocka_unit_test(the_name_has_version_and_kernel),
    };
    linalg_setup();
    return cmocka_run_group_tests(tests, NULL, NULL);
}

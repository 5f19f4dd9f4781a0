/* spectral: an operator with a known spectrum: A = R D R, D diagonal and R the product of two
 * reflections and its inverse, so that a product costs O(n) and the eigenvectors are dense.
 * Computed in f64, rounded to f32 at the end. */
#pragma once
#include "curvature/operator.h"
#include "util/rng.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct spectral {
    struct operator op;
    double *value;      // (n) eigenvalues
    double *reflect[2]; // (n) unit vectors; the first NULL: A is diagonal
    double *x;          // (n)
    int64_t products;
    int64_t fail_at; /* number of the product that fails with `failure`, or returns NaN if failure
                        is OK; 0: none */
    enum status failure;
};

static inline double *spectral_array(int64_t n)
{
    double *x = calloc((size_t)n, sizeof *x);
    assert_non_null(x);
    return x;
}

static inline void spectral_reflect(const struct spectral *s, int which)
{
    double dot = 0;
    for (int64_t i = 0; i < s->op.space.n; i++) dot += s->reflect[which][i] * s->x[i];
    for (int64_t i = 0; i < s->op.space.n; i++) s->x[i] -= 2 * dot * s->reflect[which][i];
}

/* s->x = A s->x */
static inline void spectral_product(const struct spectral *s)
{
    if (s->reflect[0]) {
        spectral_reflect(s, 0);
        spectral_reflect(s, 1);
    }
    for (int64_t i = 0; i < s->op.space.n; i++) s->x[i] *= s->value[i];
    if (s->reflect[0]) {
        spectral_reflect(s, 1);
        spectral_reflect(s, 0);
    }
}

static inline enum status spectral_apply(void *context, int64_t k, const float *const *x,
                                         float *const *y, struct err *e)
{
    enum status st = OK;
    struct spectral *s = context;
    for (int64_t j = 0; j < k; j++) {
        s->products++;
        if (s->failure != OK && s->products == s->fail_at) FAIL(s->failure, "told to fail");
        for (int64_t i = 0; i < s->op.space.n; i++) s->x[i] = x[j][i];
        spectral_product(s);
        for (int64_t i = 0; i < s->op.space.n; i++) y[j][i] = (float)s->x[i];
        if (s->products == s->fail_at) y[j][s->op.space.n / 2] = NAN;
    }
done:
    return st;
}

/* The eigenvalues are filled in by the caller. */
static inline void spectral_init(struct spectral *s, int64_t n, uint64_t stream, int dense)
{
    *s = (struct spectral){.op = {.space = space_alone(n), .apply = spectral_apply}};
    s->op.context = s;
    s->value = spectral_array(n);
    s->x = spectral_array(n);
    for (int r = 0; r < 2 && dense; r++) {
        double norm = 0;
        float z;
        s->reflect[r] = spectral_array(n);
        for (int64_t i = 0; i < n; i++) {
            rng_normals(stream + (uint64_t)r, i, 1, &z);
            s->reflect[r][i] = z;
            norm += (double)z * z;
        }
        for (int64_t i = 0; i < n; i++) s->reflect[r][i] /= sqrt(norm);
    }
}

static inline void spectral_free(struct spectral *s)
{
    free(s->value);
    free(s->reflect[0]);
    free(s->reflect[1]);
    free(s->x);
}

/* ‖A v - value v‖ and ‖v‖ in f64. */
static inline double spectral_residual(const struct spectral *s, double value, const float *v,
                                       double *norm)
{
    double sum = 0, square = 0;
    for (int64_t i = 0; i < s->op.space.n; i++) s->x[i] = v[i];
    spectral_product(s);
    for (int64_t i = 0; i < s->op.space.n; i++) sum += pow(s->x[i] - value * v[i], 2);
    for (int64_t i = 0; i < s->op.space.n; i++) square += (double)v[i] * v[i];
    *norm = sqrt(square);
    return sqrt(sum);
}

/* The diagonal of A. */
static inline void spectral_diagonal(const struct spectral *s, double *diagonal)
{
    for (int64_t j = 0; j < s->op.space.n; j++) {
        memset(s->x, 0, (size_t)s->op.space.n * sizeof *s->x);
        s->x[j] = 1;
        spectral_product(s);
        diagonal[j] = s->x[j];
    }
}

/* hvp_fixture: a parity fixture opened for derivatives, in the scalar type `real`. */
#pragma once
#include "checkpoint/tensor_file.h"
#include "curvature/hvp.h"
#include "model_fixtures.h"
#include "util/rng.h"
#include <math.h>
#include <omp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define OK_OR_FAIL(call)                                                                           \
    do {                                                                                           \
        struct err err_ = {0}, *e = &err_;                                                         \
        if ((call) != OK) fail_msg("%s", err_.text);                                               \
    } while (0)

/* Tolerances against f64 references. */
#ifdef QTRAJ_REAL_F64
static const double tolerance = 1e-9;
#else
static const double tolerance = 1e-4;
#endif

struct hvp_fixture {
    struct checkpoint *checkpoint;
    struct model *model;
    struct safetensors answers;
    struct sequences s;
    struct hvp *h;
    int64_t n;
};

static inline void *must_alloc(int64_t n, size_t size)
{
    void *p = calloc((size_t)n, size);
    assert_non_null(p);
    return p;
}

/* QTRAJ_PARITY_FIXTURES names a folder of complete fixtures to use instead of the trimmed ones. */
static inline void hvp_fixture_dir(char *dir, size_t size, const char *name)
{
    const char *whole = getenv("QTRAJ_PARITY_FIXTURES");
    if (whole)
        snprintf(dir, size, "%s/%s", whole, name);
    else
        snprintf(dir, size, "%s/models/%s", FIXTURES, name);
}

static inline void hvp_fixture_open(struct hvp_fixture *f, const char *name, enum hvp_subset subset)
{
    char dir[512], path[600];
    memset(f, 0, sizeof *f);
    hvp_fixture_dir(dir, sizeof dir, name);
    snprintf(path, sizeof path, "%s/reference.safetensors", dir);
    OK_OR_FAIL(checkpoint_open(dir, &f->checkpoint, e));
    OK_OR_FAIL(model_open(f->checkpoint, &f->model, e));
    OK_OR_FAIL(safetensors_open(path, &f->answers, e));
    if (!safetensors_find(&f->answers,
                          "grad_norms")) { /* trimmed fixtures have them in a separate file */
        safetensors_close(&f->answers);
        snprintf(path, sizeof path, "%s/derivatives.safetensors", dir);
        if (access(path, F_OK) != 0) /* laws need none */
            snprintf(path, sizeof path, "%s/reference.safetensors", dir);
        OK_OR_FAIL(safetensors_open(path, &f->answers, e));
    }
    const struct tensor_entry *ids = safetensors_find(&f->answers, "input_ids");
    assert_non_null(ids);
    OK_OR_FAIL(sequences_init(&f->s, ids->shape[0], ids->n_elements, 0, e));
    OK_OR_FAIL(safetensors_read_i32(&f->answers, ids, f->s.ids, e));
    for (int64_t i = 0; i <= ids->shape[0]; i++) f->s.offset[i] = i * ids->shape[1];
    OK_OR_FAIL(hvp_open(f->model, &f->s, subset, &f->h, e));
    f->n = hvp_n(f->h);
}

static inline void hvp_fixture_close(struct hvp_fixture *f)
{
    hvp_close(f->h);
    sequences_free(&f->s);
    safetensors_close(&f->answers);
    model_close(f->model);
    checkpoint_close(f->checkpoint);
}

/* A reference value as f64, however it is stored; NULL: the fixture has none. The caller frees. */
static inline double *hvp_answer(const struct hvp_fixture *f, const char *name, int64_t *n)
{
    const struct tensor_entry *t = safetensors_find(&f->answers, name);
    if (!t) return NULL;
    double *x = must_alloc(t->n_elements + 1, sizeof *x);
    if (t->dtype == DTYPE_F64)
        OK_OR_FAIL(tensor_file_read(f->answers.fd, f->answers.path, name, t->offset, x,
                                    t->n_elements * (int64_t)sizeof *x, e));
    else {
        float *narrow = must_alloc(t->n_elements + 1, sizeof *narrow);
        OK_OR_FAIL(safetensors_read_range(&f->answers, t, 0, t->n_elements, narrow, e));
        for (int64_t i = 0; i < t->n_elements; i++) x[i] = narrow[i];
        free(narrow);
    }
    if (n) *n = t->n_elements;
    return x;
}

static inline double hvp_answer_one(const struct hvp_fixture *f, const char *name)
{
    double *x = hvp_answer(f, name, NULL);
    assert_non_null(x);
    double one = *x;
    free(x);
    return one;
}

static inline real *hvp_vector(const struct hvp_fixture *f)
{
    return must_alloc(f->n, sizeof(real));
}

static inline void hvp_probe(const struct hvp_fixture *f, uint64_t salt, real *v)
{
    for (int64_t i = 0; i < f->n; i++) {
        float sign;
        rng_signs(salt, i, 1, &sign);
        v[i] = (real)sign;
    }
}

static inline double dot(int64_t n, const real *x, const real *y)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += (double)x[i] * (double)y[i];
    return sum;
}

static inline double norm(int64_t n, const real *x)
{
    return sqrt(dot(n, x, x));
}

/* Runs a test for every family, or for every step-th model. */
#define EACH_FIXTURE(tests, n, function) EACH_FIXTURE_STEP(tests, n, function, 1)
#define EACH_FIXTURE_STEP(tests, n, function, step)                                                \
    for (int i_ = 0; i_ < FIXTURES_N; i_ += (step)) {                                              \
        static char names_[FIXTURES_N][96];                                                        \
        snprintf(names_[i_], sizeof *names_, "%s: %s", #function, model_fixtures[i_]);             \
        tests[n++] = (struct CMUnitTest){.name = names_[i_],                                       \
                                         .test_func = function,                                    \
                                         .initial_state = (void *)(uintptr_t)model_fixtures[i_]};  \
    }

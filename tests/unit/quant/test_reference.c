/* RTN and GPTQ, with and without the search of ranges, against IST-DASLab's implementation
 * (tests/fixtures/gptq). */
#include "fixture.h"
#include "math/linalg.h"
#include <math.h>
#include <omp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

static const char *const layers[] = {"layer_small", "layer_wide", "layer_dead"};

enum { N_LAYERS = 3 };

/* "b4_g32_sym_act_static" */
static int64_t setting_parse(const char *name, struct quant_options *o)
{
    int64_t bits = name[1] - '0';
    *o = (struct quant_options){.group_size = name[4] == 'a' ? -1 : atoi(name + 4),
                                .symmetric = !strstr(name, "asym"),
                                .order = strstr(name, "_act") ? ORDER_ACTIVATION : ORDER_NONE,
                                .damping = 0.01,
                                .block_size = 128,
                                .true_sequential = true,
                                .static_groups = strstr(name, "_static") != NULL};
    return bits;
}

static double *gram_make(struct fixture_tensor x)
{
    double *h;
    int64_t n = x.dim[2], *offset;
    assert_int_equal(mem_zero(&h, n * n, sizeof *h, "a Gram", NULL), OK);
    assert_int_equal(mem_zero(&offset, x.dim[0] + 1, sizeof *offset, "offsets", NULL), OK);
    for (int64_t s = 0; s <= x.dim[0]; s++) offset[s] = s * x.dim[1];
    assert_int_equal(gram_add(h, x.f, n, offset, x.dim[0], NULL, PRODUCTS_F32, NULL), OK);
    free(offset);
    return h;
}

/* Runs a method on a layer; q (rows, cols) belongs to the caller. */
static struct quant_report layer_run(const char *method, const char *setting, double search,
                                     const struct quant_input *in, struct fixture_tensor w,
                                     float *q)
{
    const struct quant_method *m = quant_find(method);
    struct quant_options o;
    void *prepared = NULL;
    struct quant_report report;
    struct err e = {0};
    struct quant_job job = {.bits = setting_parse(setting, &o),
                            .options = &o,
                            .rows = w.dim[0],
                            .cols = w.dim[1],
                            .w = w.f,
                            .q = q,
                            .input = in};
    o.range_search = search;
    if (m->prepare && m->prepare(in, &o, &prepared, &e) != OK) fail_msg("%s", e.text);
    job.prepared = prepared;
    if (m->run(&job, &report, &e) != OK) fail_msg("%s", e.text);
    if (prepared) m->release(prepared);
    return report;
}

static void rtn_is_that_of_the_reference(void **state)
{
    (void)state;
    int cases = 0;
    for (int l = 0; l < N_LAYERS; l++) {
        struct fixture f = {0};
        const char *key;
        json_t *value;
        assert_true(fixture_open(&f, FIXTURES "/gptq", layers[l]));
        struct fixture_tensor w = fixture_get(&f, "W");
        float *q = malloc((size_t)(w.dim[0] * w.dim[1]) * sizeof *q);
        json_object_foreach(f.header, key, value) {
            if (strncmp(key, "rtn.", 4) != 0) continue;
            layer_run("rtn", key + 4, 0, NULL, w, q);
            /* numbers, not bytes: zero may have either sign */
            const float *expected = fixture_get(&f, key).f;
            for (int64_t i = 0; i < w.dim[0] * w.dim[1]; i++) assert_true(q[i] == expected[i]);
            cases++;
        }
        free(q);
        fixture_close(&f);
    }
    assert_int_equal(cases, 48);
}

/* The Hessian from the inputs equals the reference's, which was summed in f32. */
static void the_hessian_is_that_of_the_reference(void **state)
{
    (void)state;
    for (int l = 0; l < N_LAYERS; l += 2) {
        struct fixture f = {0};
        assert_true(fixture_open(&f, FIXTURES "/gptq", layers[l]));
        struct fixture_tensor x = fixture_get(&f, "X"), h = fixture_get(&f, "H");
        double *gram = gram_make(x);
        int64_t n = x.dim[2];
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = i; j < n; j++) {
                double mine = 2.0 / (double)x.dim[0] * gram[i * n + j];
                double size = sqrt((double)h.f[i * n + i] * (double)h.f[j * n + j]);
                assert_true(fabs(mine - (double)h.f[i * n + j]) <= 1e-5 * size);
            }
        free(gram);
        fixture_close(&f);
    }
}

struct tally {
    int cases, equal;
};

/* One setting: number of differing codes, and the error. The reference works in f32: a tie that
 * rounds the other way disturbs the rest of its row. */
static void gptq_case(const struct fixture *f, struct fixture_tensor w, double search,
                      const struct quant_input *in, const char *key, struct tally *t)
{
    const float *expected = fixture_get(f, key).f;
    int64_t n = w.dim[0] * w.dim[1], differ = 0;
    float *q = malloc((size_t)n * sizeof *q);
    struct quant_report r = layer_run("gptq", key + 5, search, in, w, q);
    /* Scales determined during the sweep contain the rounding of the compensation; one code is a
     * step of at least absmax / 255. */
    for (int64_t i = 0; i < n; i++)
        differ += fabsf(q[i] - expected[i]) > 1e-4f * fabsf(expected[i]) + 1e-7f;
    double error = json_number_get(json_object_get(json_object_get(f->meta, "error"), key + 5));
    if (differ)
        printf("%s: %lld of %lld codes differ, error %.6g against %.6g\n", key, (long long)differ,
               (long long)n, r.error, error);
    assert_true((double)differ <= 1e-3 * (double)n);
    assert_true(fabs(r.error - error) <= 1e-4 * error);
    assert_true(r.relative_error > 0 && r.relative_error < 1);
    assert_true(r.damping == 0.01);
    t->cases++;
    t->equal += differ == 0;
    free(q);
}

static void gptq_is_that_of_the_reference(void **state)
{
    (void)state;
    struct tally t = {0};
    for (int l = 0; l < N_LAYERS; l++) {
        struct fixture f = {0};
        const char *key;
        json_t *value;
        assert_true(fixture_open(&f, FIXTURES "/gptq", layers[l]));
        struct fixture_tensor x = fixture_get(&f, "X");
        double *gram = gram_make(x);
        struct quant_input in = {.cols = x.dim[2],
                                 .samples = x.dim[0],
                                 .tokens = x.dim[0] * x.dim[1],
                                 .statistic[STATISTIC_GRAM] = gram};
        json_object_foreach(f.header, key, value)
            if (strncmp(key, "gptq.", 5) == 0) gptq_case(&f, fixture_get(&f, "W"), 0, &in, key, &t);
        free(gram);
        fixture_close(&f);
    }
    printf("%d of %d cases equal in every code\n", t.equal, t.cases);
    assert_int_equal(t.cases, 57);
    assert_true(t.equal >= 54);
}

/* The search takes the smaller of two errors that are sums of f32 powers: every code is equal. */
static void the_range_search_is_that_of_the_reference(void **state)
{
    (void)state;
    struct fixture layer = {0}, f = {0};
    struct tally t = {0};
    const char *key;
    json_t *value;
    assert_true(fixture_open(&layer, FIXTURES "/gptq", "layer_small"));
    assert_true(fixture_open(&f, FIXTURES "/gptq", "search"));
    struct fixture_tensor x = fixture_get(&layer, "X"), w = fixture_get(&layer, "W");
    double *gram = gram_make(x);
    float *q = malloc((size_t)(w.dim[0] * w.dim[1]) * sizeof *q);
    struct quant_input in = {.cols = x.dim[2],
                             .samples = x.dim[0],
                             .tokens = x.dim[0] * x.dim[1],
                             .statistic[STATISTIC_GRAM] = gram};
    json_object_foreach(f.header, key, value) {
        if (strncmp(key, "gptq.", 5) == 0) gptq_case(&f, w, 2.4, &in, key, &t);
        if (strncmp(key, "rtn.", 4) != 0) continue;
        const float *expected = fixture_get(&f, key).f;
        layer_run("rtn", key + 4, 2.4, NULL, w, q);
        for (int64_t i = 0; i < w.dim[0] * w.dim[1]; i++) assert_true(q[i] == expected[i]);
        t.cases++;
    }
    assert_int_equal(t.cases, 7 + 6);
    assert_int_equal(t.equal, 6);
    free(q);
    free(gram);
    fixture_close(&f);
    fixture_close(&layer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rtn_is_that_of_the_reference),
        cmocka_unit_test(the_hessian_is_that_of_the_reference),
        cmocka_unit_test(gptq_is_that_of_the_reference),
        cmocka_unit_test(the_range_search_is_that_of_the_reference),
    };
    linalg_setup();
    return cmocka_run_group_tests(tests, NULL, NULL);
}

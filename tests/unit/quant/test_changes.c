/* noise, permuted, flipped: the norm is that of the method they imitate, and the rest is not. */
#include "layer.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

enum { ROWS = 70, COLS = 192, WEIGHTS = ROWS * COLS };

static const char *const kinds[] = {"noise", "permuted", "flipped"};

/* d (WEIGHTS) = the change that the method makes; returns its report. */
static struct quant_report change_of(const struct layer *l, const char *method, int64_t bits,
                                     const struct quant_options *o, double *d)
{
    struct quant_report r;
    struct err e = {0};
    float *q;
    if (layer_quantize(l, quant_find(method), bits, o, &q, &r, &e) != OK) fail_msg("%s", e.text);
    for (int64_t k = 0; k < WEIGHTS; k++) d[k] = (double)q[k] - (double)l->w[k];
    free(q);
    return r;
}

static double product(const double *a, const double *b, int64_t n)
{
    double sum = 0;
    for (int64_t k = 0; k < n; k++) sum += a[k] * b[k];
    return sum;
}

static double cosine(const double *a, const double *b)
{
    return product(a, b, WEIGHTS) / sqrt(product(a, a, WEIGHTS) * product(b, b, WEIGHTS));
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void norms_are_those_of_the_method(void **state)
{
    (void)state;
    static double wanted[WEIGHTS], found[WEIGHTS];
    struct layer l = layer_make(ROWS, COLS, 400);
    for (int of = 0; of < 2; of++)
        for (int64_t bits = 2; bits <= 8; bits++) {
            struct quant_options o = options_make(64);
            change_of(&l, of ? "rtn" : "gptq", bits, &o, wanted);
            if (of) option_set(&o, "--change-of", "rtn");
            const double norm = sqrt(product(wanted, wanted, WEIGHTS));
            for (int k = 0; k < 3; k++) {
                const struct quant_report r = change_of(&l, kinds[k], bits, &o, found);
                assert_true(fabs(sqrt(product(found, found, WEIGHTS)) / norm - 1) < 1e-6);
                assert_true(fabs(sqrt(r.squared_distance) / norm - 1) < 1e-6);
                assert_true(fabs(cosine(wanted, found)) < 0.05);
            }
        }
    layer_free(&l);
}

/* Rows of `permuted` have the same changes in another order, those of `flipped` the same sizes. */
static void changes_are_those_of_the_method(void **state)
{
    (void)state;
    static double wanted[WEIGHTS], permuted[WEIGHTS], flipped[WEIGHTS];
    struct layer l = layer_make(ROWS, COLS, 400);
    struct quant_options o = options_make(64);
    change_of(&l, "gptq", 3, &o, wanted);
    change_of(&l, "permuted", 3, &o, permuted);
    change_of(&l, "flipped", 3, &o, flipped);
    for (int64_t k = 0; k < WEIGHTS; k++)
        assert_true(fabs(fabs(flipped[k]) - fabs(wanted[k])) < 1e-7);
    for (int64_t i = 0; i < ROWS; i++) {
        qsort(wanted + i * COLS, COLS, sizeof *wanted, by_size);
        qsort(permuted + i * COLS, COLS, sizeof *permuted, by_size);
        for (int64_t k = i * COLS; k < (i + 1) * COLS; k++)
            assert_true(fabs(permuted[k] - wanted[k]) < 1e-7);
    }
    layer_free(&l);
}

static void noise_is_normal(void **state)
{
    (void)state;
    static double d[WEIGHTS];
    double sum = 0, squares = 0, fourth = 0;
    struct layer l = layer_make(ROWS, COLS, 400);
    struct quant_options o = options_make(64);
    change_of(&l, "noise", 3, &o, d);
    for (int64_t k = 0; k < WEIGHTS; k++) {
        sum += d[k];
        squares += d[k] * d[k];
        fourth += d[k] * d[k] * d[k] * d[k];
    }
    assert_true(fabs(sum) < 4 * sqrt(squares));
    /* the kurtosis of so many has the standard deviation √(24 / WEIGHTS) */
    assert_true(fabs(fourth * WEIGHTS / (squares * squares) - 3) < 4 * sqrt(24.0 / WEIGHTS));
    layer_free(&l);
}

static void seeds_replicates_and_places_differ(void **state)
{
    (void)state;
    static double d[5][WEIGHTS];
    struct layer l = layer_make(ROWS, COLS, 400);
    for (int k = 0; k < 3; k++) {
        const struct quant_method *m = quant_find(kinds[k]);
        for (int i = 0; i < 5;
             i++) { /* as it is, and with another seed, replicate, block, linear */
            struct quant_options o = options_make(64);
            struct quant_report r;
            float *q = calloc(WEIGHTS, sizeof *q);
            void *prepared = NULL;
            if (i == 1) option_set(&o, "--change-seed", "1");
            assert_int_equal(m->prepare(&l.input, &o, &prepared, NULL), OK);
            const struct quant_job job = {.bits = 3,
                                          .options = &o,
                                          .layer = i == 3,
                                          .linear = i == 4,
                                          .replicate = i == 2,
                                          .rows = ROWS,
                                          .cols = COLS,
                                          .w = l.w,
                                          .q = q,
                                          .input = &l.input,
                                          .prepared = prepared};
            assert_int_equal(m->run(&job, &r, NULL), OK);
            for (int64_t j = 0; j < WEIGHTS; j++) d[i][j] = (double)q[j] - (double)l.w[j];
            m->release(prepared);
            free(q);
            for (int j = 0; j < i; j++) assert_true(fabs(cosine(d[i], d[j])) < 0.05);
        }
    }
    layer_free(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(norms_are_those_of_the_method),
        cmocka_unit_test(changes_are_those_of_the_method),
        cmocka_unit_test(noise_is_normal),
        cmocka_unit_test(seeds_replicates_and_places_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

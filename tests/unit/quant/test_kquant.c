/* q4_k and its relatives against llama.cpp's quantizers, with and without importance: equal bit
 * for bit (tests/fixtures/kquant). */
#include "fixture.h"
#include "layer.h"
#include "math/dtype.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

static struct fixture_tensor tensor(const struct fixture *f, const char *matrix, const char *name)
{
    char key[64];
    snprintf(key, sizeof key, "%s.%s", matrix, name);
    struct fixture_tensor t = fixture_get(f, key);
    if (!t.data) fail_msg("no tensor %s", key);
    return t;
}

/* q of the method for the rows and first cols columns of w. */
static float *quantize(const struct quant_method *m, const float *w, int64_t rows, int64_t cols,
                       const double *squares, struct quant_report *r)
{
    struct layer l = {.rows = rows, .cols = cols, .w = (float *)(uintptr_t)w};
    struct quant_options o = options_make(128);
    struct err e = {0};
    float *q;
    l.input = (struct quant_input){.cols = cols, .tokens = 4};
    l.input.statistic[STATISTIC_SQUARES] = squares;
    o.importance = squares != NULL;
    struct quant_job job = {.bits = m->bits_min,
                            .options = &o,
                            .rows = rows,
                            .cols = cols,
                            .w = w,
                            .input = squares ? &l.input : NULL};
    if (mem_alloc(&q, rows * cols, sizeof *q, "result", NULL) != OK) abort();
    job.q = q;
    if (layer_run(m, &job, r, &e) != OK) fail_msg("%s: %s", m->name, e.text);
    return q;
}

/* The method gives what llama.cpp's type does, for that matrix of the fixture. */
static void check(const char *method, const char *matrix, const char *type, double bits)
{
    struct fixture f = {0};
    assert_true(fixture_open(&f, FIXTURES "/kquant", "kquant"));
    const struct quant_method *m = quant_find(method);
    const struct fixture_tensor w = tensor(&f, matrix, "W"), x = tensor(&f, matrix, "squares");
    const int64_t rows = w.dim[0], cols = w.dim[1];
    double squares[512];
    for (int64_t j = 0; j < cols; j++) squares[j] = 4 * (double)x.f[j];
    for (int importance = 0; importance < 2; importance++) {
        char name[32];
        struct quant_report r;
        if (importance && !m->statistics) continue;
        snprintf(name, sizeof name, "%s%s", type, importance ? ".im" : "");
        const float *want = tensor(&f, matrix, name).f;
        float *q = quantize(m, w.f, rows, cols, importance ? squares : NULL, &r);
        for (int64_t k = 0; k < rows * cols; k++)
            if (q[k] != want[k])
                fail_msg("%s, %s: weight %lld is %g, not %g", method, name, (long long)k,
                         (double)q[k], (double)want[k]);
        assert_true(r.bits_per_weight == bits);
        free(q);
    }
    fixture_close(&f);
}

static void weights_are_those_of_llama_cpp(void **state)
{
    (void)state;
    check("q2_k", "wide", "q2_k", 2.625);
    check("q3_k", "wide", "q3_k", 3.4375);
    check("q4_k", "wide", "q4_k", 4.5);
    check("q5_k", "wide", "q5_k", 5.5);
    check("q6_k", "wide", "q6_k", 6.5625);
    check("q4_0", "narrow", "q4_0", 4.5);
    check("q8_0", "narrow", "q8_0", 8.5);
    check("iq4_nl", "narrow", "iq4_nl", 4.5);
}

/* Rows that are no multiple of 256 get another type, those that are none of 32 get f16. */
static void other_lengths_get_another_type(void **state)
{
    (void)state;
    check("q2_k", "narrow", "iq4_nl", 4.5);
    check("q3_k", "narrow", "iq4_nl", 4.5);
    check("q4_k", "narrow", "q5_0", 5.5);
    check("q5_k", "narrow", "q5_1", 6);
    struct layer l = layer_make(2, 40, 3);
    struct quant_report r;
    float *q = quantize(quant_find("q4_k"), l.w, l.rows, l.cols, NULL, &r);
    for (int64_t k = 0; k < l.rows * l.cols; k++)
        assert_true(q[k] == dtype_round_f16(l.w[k]) && q[k] != l.w[k]);
    assert_true(r.bits_per_weight == 16);
    free(q);
    layer_free(&l);
}

/* An importance is needed only if it is asked for. */
static void statistics_are_optional(void **state)
{
    (void)state;
    const struct quant_method *m = quant_find("q4_k");
    struct quant_options o = options_make(128);
    assert_false(quant_calibrates(m, &o) || quant_needs_of(m, &o).statistics);
    assert_true(quant_calibrates(m, NULL));
    o.importance = true;
    const struct quant_needs n = quant_needs_of(m, &o);
    assert_true(quant_calibrates(m, &o) && n.shared && !n.own);
    assert_int_equal(n.statistics, WANTS(STATISTIC_SQUARES));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_are_those_of_llama_cpp),
        cmocka_unit_test(other_lengths_get_another_type),
        cmocka_unit_test(statistics_are_optional),
    };
    linalg_setup();
    return cmocka_run_group_tests(tests, NULL, NULL);
}

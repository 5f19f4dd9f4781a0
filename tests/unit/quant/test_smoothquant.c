/* smoothquant against its authors' code (tests/fixtures/smoothquant): two linears behind a norm. */
#include "fixture.h"
#include "layer.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

enum { LINEARS = 2 };

struct setting {
    struct fixture file;
    struct quant_linear linear[LINEARS];
    struct quant_input input[1];
    struct quant_options options;
    struct quant_block block;
    double *most; // (cols) largest inputs
};

static struct fixture_tensor tensor(const struct setting *s, const char *name, int i)
{
    char key[16];
    snprintf(key, sizeof key, "%s%d", name, i);
    struct fixture_tensor t = fixture_get(&s->file, key);
    assert_non_null(t.data);
    return t;
}

static void setting_open(struct setting *s, int tie)
{
    *s = (struct setting){.options = options_make(-1)};
    assert_true(fixture_open(&s->file, FIXTURES "/smoothquant", "smoothquant"));
    struct fixture_tensor x = fixture_get(&s->file, "X");
    const int64_t offset[] = {0, x.dim[0]}, cols = x.dim[1];
    const struct statistic_range all = {
        .x = x.f, .cols = cols, .offset = offset, .n = 1, .tokens = x.dim[0]};
    assert_int_equal(mem_zero(&s->most, cols, sizeof *s->most, "largest inputs", NULL), OK);
    assert_int_equal(statistic_at(STATISTIC_LARGEST)->add(s->most, &all, NULL), OK);
    s->input[0] = (struct quant_input){.cols = cols, .samples = 1, .tokens = x.dim[0]};
    s->input[0].statistic[STATISTIC_LARGEST] = s->most;
    for (int i = 0; i < LINEARS; i++) {
        struct fixture_tensor w = tensor(s, "W", i);
        s->linear[i] = (struct quant_linear){
            .name = "w", .rows = w.dim[0], .cols = w.dim[1], .w = w.f, .tie = tie};
    }
    s->block = (struct quant_block){.bits = 8,
                                    .options = &s->options,
                                    .n_linears = LINEARS,
                                    .n_stages = 1,
                                    .linear = s->linear,
                                    .input = s->input};
}

static void setting_close(struct setting *s)
{
    free(s->most);
    fixture_close(&s->file);
}

/* Tokens whose outputs differ by more than 1e-5 of the largest. */
static int tokens_apart(const float *y, const struct fixture_tensor *expected)
{
    const int64_t T = expected->dim[0], rows = expected->dim[1];
    float most = 0;
    int apart = 0;
    for (int64_t i = 0; i < T * rows; i++) most = fmaxf(most, fabsf(expected->f[i]));
    for (int64_t t = 0; t < T; t++) {
        float error = 0;
        for (int64_t i = t * rows; i < (t + 1) * rows; i++)
            error = fmaxf(error, fabsf(y[i] - expected->f[i]));
        apart += error > 1e-5f * most;
    }
    return apart;
}

static void check_linear(const struct setting *s, int i, const void *prepared)
{
    const struct quant_method *m = quant_find("smoothquant");
    struct fixture_tensor x = fixture_get(&s->file, "X"), q = tensor(s, "Q", i),
                          y = tensor(s, "Y", i);
    struct quant_report r;
    struct err e = {0};
    void *linear;
    float *got, *out;
    const int64_t rows = s->linear[i].rows, cols = s->linear[i].cols;
    assert_int_equal(mem_zero(&got, rows * cols, sizeof *got, "weights", &e), OK);
    assert_int_equal(mem_zero(&out, x.dim[0] * rows, sizeof *out, "outputs", &e), OK);
    const struct quant_job job = {.bits = 8,
                                  .options = &s->options,
                                  .linear = i,
                                  .rows = rows,
                                  .cols = cols,
                                  .w = s->linear[i].w,
                                  .q = got,
                                  .prepared = prepared};
    assert_int_equal(m->run(&job, &r, &e), OK);
    for (int64_t k = 0; k < rows * cols; k++)
        assert_true(fabsf(got[k] - q.f[k]) <= 1e-5f * fabsf(q.f[k]) + 1e-9f);
    assert_float_equal(r.bits_per_weight, 8 + 32 / (double)cols, 1e-12);
    assert_int_equal(m->make_linear(&job, x.dim[0], &linear, &e), OK);
    m->apply(linear, x.f, x.dim[0], out, rows);
    assert_true(tokens_apart(out, &y) <= 1); /* a code of an input flips at a tie */
    m->free_linear(linear);
    free(got);
    free(out);
}

static void factors_are_those_of_the_authors(void **state)
{
    (void)state;
    const struct quant_method *m = quant_find("smoothquant");
    struct setting s;
    struct err e = {0};
    void *prepared[1] = {NULL};
    setting_open(&s, TIE_NORM);
    assert_int_equal(m->prepare_block(&s.block, prepared, &e), OK);
    for (int i = 0; i < LINEARS; i++) check_linear(&s, i, prepared[0]);
    m->release(prepared[0]);
    setting_close(&s);
}

/* Where no norm absorbs the factors, they are left out, or counted. */
static void without_a_norm_factors_are_left_out_or_counted(void **state)
{
    (void)state;
    const struct quant_method *m = quant_find("smoothquant");
    for (int all = 0; all < 2; all++) {
        struct setting s;
        struct quant_report r;
        struct err e = {0};
        void *prepared[1] = {NULL};
        setting_open(&s, TIE_NONE);
        const struct {
            double migration;
            int smoothed;
        } own = {0.5, all}; /* norm, all */
        memcpy(&s.options.own[METHOD_smoothquant], &own, sizeof own);
        assert_int_equal(m->prepare_block(&s.block, prepared, &e), OK);
        const int64_t rows = s.linear[0].rows, cols = s.linear[0].cols;
        float *q;
        assert_int_equal(mem_zero(&q, rows * cols, sizeof *q, "weights", &e), OK);
        const struct quant_job job = {.bits = 8,
                                      .options = &s.options,
                                      .rows = rows,
                                      .cols = cols,
                                      .w = s.linear[0].w,
                                      .q = q,
                                      .prepared = prepared[0]};
        assert_int_equal(m->run(&job, &r, &e), OK);
        const double factors = all ? 16 / (double)(rows + s.linear[1].rows) : 0;
        assert_float_equal(r.bits_per_weight, 8 + 32 / (double)cols + factors, 1e-12);
        double distance = 0;
        struct fixture_tensor expected = tensor(&s, "Q", 0);
        for (int64_t k = 0; k < rows * cols; k++)
            distance = fmax(distance, (double)fabsf(q[k] - expected.f[k]));
        assert_true((distance < 1e-6) == all);
        free(q);
        m->release(prepared[0]);
        setting_close(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(factors_are_those_of_the_authors),
        cmocka_unit_test(without_a_norm_factors_are_left_out_or_counted)};
    linalg_setup();
    return cmocka_run_group_tests(tests, NULL, NULL);
}

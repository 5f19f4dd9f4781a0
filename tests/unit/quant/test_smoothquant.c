/* smoothquant against its authors' code (tests/fixtures/smoothquant): two linears behind a norm. */
#include "fixture.h"
#include "layer.h"
#include "quant/job.h"
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

enum { TOKENS = 70 };

/* Codes of x (n) in place; their scale. */
static float round_codes(float *x, int64_t n, float most)
{
    const float scale = fmaxf(most, 1e-5f) / 127;
    for (int64_t j = 0; j < n; j++) x[j] = nearbyintf(x[j] / scale);
    return scale;
}

/* Outputs are sums of products of codes, which are exact whatever multiplies them, times the
 * scales; a token that is not finite has none. */
static void sums_are_exact(void **state)
{
    (void)state;
    static const int64_t sizes[][2] = {{70, 300}, {64, 32}, {5, 31}, {130, 2100}};
    const struct quant_method *m = quant_find("smoothquant");
    for (int k = 0; k < 8; k++) {
        struct quant_options o = options_make(-1);
        const struct {
            double migration;
            int smoothed, granularity;
        } own = {0.5, 0, k / 4}; /* token, tensor */
        memcpy(&o.own[METHOD_smoothquant], &own, sizeof own);
        const int64_t rows = sizes[k % 4][0], cols = sizes[k % 4][1];
        const size_t size = sizeof(float);
        float *w = malloc((size_t)(rows * cols) * size), *x = malloc(TOKENS * (size_t)cols * size);
        float *y = malloc(TOKENS * (size_t)rows * size), scale[TOKENS], all = 0;
        struct quant_linear l = {.name = "w", .rows = rows, .cols = cols, .w = w};
        struct quant_input in = {.cols = cols};
        const struct quant_block b = {
            .bits = 8, .options = &o, .n_linears = 1, .n_stages = 1, .linear = &l, .input = &in};
        void *prepared[1] = {NULL}, *linear;
        struct err e = {0};
        for (int64_t i = 0; i < rows * cols; i++) w[i] = sinf((float)(i * i % 9973)) * 0.3f;
        for (int64_t i = 0; i < TOKENS * cols; i++) x[i] = cosf((float)(i * 7 % 9967)) * 5;
        for (int64_t t = 0; t < TOKENS; t++) x[t * cols] = 5 + (float)t;
        assert_int_equal(m->prepare_block(&b, prepared, &e), OK);
        const struct quant_job job = {
            .bits = 8, .options = &o, .rows = rows, .cols = cols, .w = w, .prepared = prepared[0]};
        assert_int_equal(m->make_linear(&job, TOKENS, &linear, &e), OK);
        m->apply(linear, x, TOKENS, y, rows);
        for (int64_t t = 0; t < TOKENS; t++) all = fmaxf(all, row_largest(x + t * cols, cols));
        for (int64_t t = 0; t < TOKENS; t++) {
            const float most = row_largest(x + t * cols, cols);
            scale[t] = round_codes(x + t * cols, cols, own.granularity ? all : most);
        }
        for (int64_t i = 0; i < rows; i++) {
            const float weight = round_codes(w + i * cols, cols, row_largest(w + i * cols, cols));
            for (int64_t t = 0; t < TOKENS; t++) {
                int64_t sum = 0;
                for (int64_t j = 0; j < cols; j++)
                    sum += (int64_t)x[t * cols + j] * (int64_t)w[i * cols + j];
                assert_true(y[t * rows + i] == (float)sum * (scale[t] * weight));
            }
        }
        x[3 * cols + 2] = k % 2 ? INFINITY : NAN;
        m->apply(linear, x, TOKENS, y, rows);
        for (int64_t i = 0; i < rows; i++) assert_true(isnan(y[3 * rows + i]));
        m->free_linear(linear);
        m->release(prepared[0]);
        free(w);
        free(x);
        free(y);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_exact), cmocka_unit_test(factors_are_those_of_the_authors),
        cmocka_unit_test(without_a_norm_factors_are_left_out_or_counted)};
    linalg_setup();
    return cmocka_run_group_tests(tests, NULL, NULL);
}

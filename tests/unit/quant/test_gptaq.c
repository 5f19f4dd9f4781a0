/* gptaq against its authors' code (tests/fixtures/gptaq), and what its own options mean. */
#include "fixture.h"
#include "layer.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

/* The layer of a fixture: its sums come from X and Xfp, one sequence a sample. */
static struct layer layer_of(const struct fixture *f)
{
    struct fixture_tensor w = fixture_get(f, "W"), x = fixture_get(f, "X");
    struct fixture_tensor full = fixture_get(f, "Xfp");
    int64_t offset[8], tokens = x.dim[0] * x.dim[1], numbers = tokens * x.dim[2];
    struct layer l = {.rows = w.dim[0], .cols = w.dim[1], .w = (float *)(uintptr_t)w.f};
    struct err e = {0};
    assert_true(w.f && x.f && full.f && x.dim[0] < 8 && x.dim[2] == l.cols);
    for (int64_t i = 0; i <= x.dim[0]; i++) offset[i] = i * x.dim[1];
    assert_int_equal(mem_alloc(&l.change, numbers, sizeof *l.change, "inputs", &e), OK);
    for (int64_t k = 0; k < numbers; k++) l.change[k] = full.f[k] - x.f[k];
    const struct statistic_range all = {.x = x.f,
                                        .change = l.change,
                                        .cols = l.cols,
                                        .offset = offset,
                                        .n = x.dim[0],
                                        .tokens = tokens};
    l.input = (struct quant_input){.cols = l.cols, .samples = x.dim[0], .tokens = tokens};
    for (int k = 0; k < STATISTIC_N; k++) {
        const struct statistic *s = statistic_at(k);
        assert_int_equal(mem_zero(&l.sums[k], s->count(l.cols), sizeof(double), s->name, &e), OK);
        assert_int_equal(s->add(l.sums[k], &all, &e), OK);
        l.input.statistic[k] = l.sums[k];
    }
    return l;
}

static void layer_drop(struct layer *l)
{
    free(l->change);
    for (int k = 0; k < STATISTIC_N; k++) free(l->sums[k]);
}

/* [own_]b<bits>_g<group or all>_<sym|asym>[_act][_static][_alpha1] */
static struct quant_options options_of(const char *setting, int64_t *bits)
{
    const char *at = strstr(setting, "b");
    struct quant_options o = options_make(strstr(setting, "_gall") ? -1 : 32);
    *bits = at[1] - '0';
    o.symmetric = !strstr(setting, "_asym");
    o.order = strstr(setting, "_act") ? ORDER_ACTIVATION : ORDER_NONE;
    o.static_groups = strstr(setting, "_static") != NULL;
    if (strstr(setting, "_alpha1")) option_set(&o, "--alpha", "1");
    if (strncmp(setting, "own", 3) == 0) option_set(&o, "--symmetric-grid", "gptaq");
    return o;
}

/* |X Qᵀ - Xfp Wᵀ|² */
static double error_of(const struct fixture *f, const struct layer *l, const float *q)
{
    const float *x = fixture_get(f, "X").f, *full = fixture_get(f, "Xfp").f;
    double sum = 0;
    for (int64_t t = 0; t < l->input.tokens; t++)
        for (int64_t i = 0; i < l->rows; i++) {
            double d = 0;
            for (int64_t j = 0; j < l->cols; j++)
                d += (double)x[t * l->cols + j] * (double)q[i * l->cols + j] -
                     (double)full[t * l->cols + j] * (double)l->w[i * l->cols + j];
            sum += d * d;
        }
    return sum;
}

static float *run(const struct layer *l, const char *method, int64_t bits,
                  const struct quant_options *o)
{
    struct quant_report r;
    struct err e = {0};
    float *q;
    if (layer_quantize(l, quant_find(method), bits, o, &q, &r, &e) != OK) fail_msg("%s", e.text);
    return q;
}

static int64_t differing(const float *a, const float *b, int64_t n)
{
    int64_t differ = 0;
    for (int64_t k = 0; k < n; k++) differ += fabsf(a[k] - b[k]) > 1e-5f * fabsf(b[k]) + 1e-6f;
    return differ;
}

/* Equal codes. One in a thousand may differ: with another BLAS a tie may fall to the other side,
 * and moves the rest of its row. */
static void codes_are_those_of_the_authors(void **state)
{
    static const char *const names[] = {"small", "wide", "dead"};
    (void)state;
    for (int i = 0; i < 3; i++) {
        struct fixture f = {0};
        const char *setting;
        json_t *error;
        char name[40];
        snprintf(name, sizeof name, "gptaq_%s", names[i]);
        assert_true(fixture_open(&f, FIXTURES "/gptaq", name));
        struct layer l = layer_of(&f);
        json_object_foreach(json_object_get(f.meta, "error"), setting, error) {
            int64_t bits, n = l.rows * l.cols;
            struct quant_options o = options_of(setting, &bits);
            float *q = run(&l, "gptaq", bits, &o);
            int64_t differ = differing(q, fixture_get(&f, setting).f, n);
            double away = error_of(&f, &l, q) / json_number_get(error) - 1;
            printf("%s %s: %lld of %lld differ, error %+.1e\n", name, setting, (long long)differ,
                   (long long)n, away);
            assert_true(differ * 1000 <= n && fabs(away) < 1e-4);
            free(q);
        }
        layer_drop(&l);
        fixture_close(&f);
    }
}

/* Without a correction, and with inputs that are those of the full-precision model, it is gptq. */
static void without_correction_it_is_gptq(void **state)
{
    (void)state;
    struct layer l = layer_make(70, 200, 400);
    struct quant_options o = options_make(32), none = o;
    option_set(&none, "--alpha", "0");
    float *plain = run(&l, "gptq", 3, &o), *with = run(&l, "gptaq", 3, &o);
    float *without = run(&l, "gptaq", 3, &none);
    assert_memory_equal(plain, without, 70 * 200 * sizeof *plain);
    assert_memory_not_equal(plain, with, 70 * 200 * sizeof *plain);
    memset(l.sums[STATISTIC_ASYMMETRY], 0, 200 * 200 * sizeof(double));
    free(with);
    with = run(&l, "gptaq", 3, &o);
    assert_memory_equal(plain, with, 70 * 200 * sizeof *plain);
    free(plain), free(with), free(without);
    layer_free(&l);
}

/* If rounded weights are nowhere corrected for, blocks of columns are an order of computation only.
 */
static void consistent_blocks_are_only_an_order(void **state)
{
    (void)state;
    struct layer l = layer_make(70, 200, 400);
    int64_t differ[2];
    for (int consistent = 0; consistent < 2; consistent++) {
        struct quant_options o = options_make(-1), small;
        if (consistent) option_set(&o, "--consistent", NULL);
        small = o;
        small.block_size = 16;
        float *a = run(&l, "gptaq", 3, &o), *b = run(&l, "gptaq", 3, &small);
        differ[consistent] = differing(a, b, 70 * 200);
        free(a), free(b);
    }
    printf("blocks of 16 and 128: %lld codes differ, consistent %lld\n", (long long)differ[0],
           (long long)differ[1]);
    assert_true(differ[0] > 140 && differ[1] * 10 < differ[0]);
    layer_free(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(codes_are_those_of_the_authors),
                                       cmocka_unit_test(without_correction_it_is_gptq),
                                       cmocka_unit_test(consistent_blocks_are_only_an_order)};
    linalg_setup();
    return cmocka_run_group_tests(tests, NULL, NULL);
}

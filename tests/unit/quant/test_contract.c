/* The contract of every method in the table, or of the one that is the program's argument. */
#include "layer.h"
#include "math/isa.h"
#include <omp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#define EACH_METHOD(m)                                                                             \
    const struct quant_method *m;                                                                  \
    for (int m##_i = 0; (m = quant_at(m##_i)) != NULL; m##_i++)

static const char *only;

static bool chosen(const struct subject *s)
{
    return !only || strcmp(s->method->name, only) == 0;
}

#define EACH_CHOSEN(s) EACH_SUBJECT(s) if (chosen(&(s)))

static float *quantize(const struct layer *l, const struct quant_method *m, int64_t bits,
                       const struct quant_options *o, struct quant_report *report)
{
    float *q;
    struct err e = {0};
    if (layer_quantize(l, m, bits, o, &q, report, &e) != OK) fail_msg("%s: %s", m->name, e.text);
    return q;
}

static void refuse_method(const char *name, const char *message)
{
    const struct quant_method *m;
    struct err e = {0};
    assert_int_equal(quant_require(name, &m, &e), ERR_USAGE);
    if (!strstr(e.text, message)) fail_msg("%s: %s", name, e.text);
}

static void the_table_is_consistent(void **state)
{
    (void)state;
    int n = 0;
    EACH_METHOD(m)
    {
        assert_ptr_equal(quant_find(m->name), m);
        assert_true(m->doc && m->options && m->run);
        assert_true(m->bits_min >= QUANT_BITS_LEAST && m->bits_max <= QUANT_BITS_MAX);
        assert_true(!(m->prepare || m->prepare_block) == !m->release);
        assert_false(m->prepare && m->prepare_block);
        assert_true(!m->apply == !m->make_linear && !m->apply == !m->free_linear);
        assert_true(m->own.size <= QUANT_OWN_BYTES && !m->own.n == !m->own.options);
        assert_true(m->statistics < WANTS(STATISTIC_N));
        assert_true(!m->cost || m->flop == 0);
        if (m->cost) {
            struct quant_options o = options_make(64);
            struct quant_cost c = {0};
            m->cost(&o, 100, 200, &c);
            assert_true(c.run > 0 && c.prepare >= 0 && c.passes >= 0);
        }
        n++;
    }
    assert_true(n >= 2);
    assert_null(quant_at(-1));
    assert_null(quant_find("gptr"));
    for (int i = 0; quant_names()[i] || quant_at(i); i++)
        assert_string_equal(quant_names()[i], quant_at(i)->name);
    refuse_method("gpqt", "did you mean gptq?");
    char known[64];
    snprintf(known, sizeof known, "there are: %s, %s", quant_names()[0], quant_names()[1]);
    refuse_method("aqlm", known); /* like none of them */
}

/* Results and report are bitwise equal for one thread, for three, and when repeated. */
static void same_bits_for_any_threads(void **state)
{
    (void)state;
    const int usual = omp_get_max_threads();
    struct layer l = layer_make(130, 200, 600);
    EACH_CHOSEN(s)
    {
        const struct quant_method *m = s.method;
        struct quant_options o = subject_options(&s, 64);
        struct quant_report a, b;
        o.range_search = 2.4;
        omp_set_num_threads(1);
        float *p = quantize(&l, m, m->bits_min, &o, &a);
        for (int i = 0; i < 2; i++) {
            omp_set_num_threads(3);
            float *q = quantize(&l, m, m->bits_min, &o, &b);
            assert_memory_equal(p, q, (size_t)(l.rows * l.cols) * sizeof *p);
            assert_memory_equal(&a, &b, sizeof a);
            free(q);
        }
        free(p);
    }
    omp_set_num_threads(usual);
    layer_free(&l);
}

/* Codes do not depend on the instruction set. */
static void same_codes_for_any_instruction_set(void **state)
{
    (void)state;
    struct layer l = layer_make(70, 200, 300);
    EACH_CHOSEN(s)
    {
        const struct quant_method *m = s.method;
        struct quant_options o = subject_options(&s, 64);
        struct quant_report a, b;
        o.symmetric = false;
        isa_use(ISA_PLAIN);
        float *p = quantize(&l, m, m->bits_min, &o, &a);
        for (int isa = ISA_AVX2; isa < ISA_N; isa++) {
            if (!isa_runs((enum isa)isa)) continue;
            isa_use((enum isa)isa);
            float *q = quantize(&l, m, m->bits_min, &o, &b);
            assert_memory_equal(p, q, (size_t)(l.rows * l.cols) * sizeof *p);
            assert_memory_equal(&a, &b, sizeof a);
            free(q);
        }
        free(p);
    }
    layer_free(&l);
}

static void more_bits_have_less_error(void **state)
{
    (void)state;
    struct layer l = layer_make(40, 160, 500);
    EACH_CHOSEN(s)
    {
        const struct quant_method *m = s.method;
        struct quant_report before = {0};
        for (int64_t bits = m->bits_min; bits <= m->bits_max; bits++) {
            struct quant_options o = subject_options(&s, 32);
            struct quant_report r;
            free(quantize(&l, m, bits, &o, &r));
            assert_true(r.squared_distance > 0 && r.bits_per_weight >= (double)bits);
            if (m->statistics & WANTS(STATISTIC_GRAM) && !(m->results & QUANT_IMITATES)) {
                assert_true(r.error > 0);
                assert_true(bits == m->bits_min || r.error < before.error);
            } else {
                assert_true(isnan(r.error) && isnan(r.relative_error) && isnan(r.damping));
            }
            if (m == &quant_gptq) assert_true(r.relative_error > 0 && r.relative_error < 1);
            assert_false(bits > m->bits_min && r.relative_error >= before.relative_error);
            assert_true(bits == m->bits_min || r.squared_distance < before.squared_distance);
            before = r;
        }
    }
    layer_free(&l);
}

static int by_value(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* A group of a row has at most 2^bits distinct values, on a grid of that many steps. */
static void group_check(const float *q, int64_t n, int64_t bits)
{
    float sorted[512], step = INFINITY;
    int64_t distinct = 1;
    memcpy(sorted, q, (size_t)n * sizeof *q);
    qsort(sorted, (size_t)n, sizeof *sorted, by_value);
    for (int64_t j = 1; j < n; j++) {
        float d = sorted[j] - sorted[j - 1];
        distinct += d > 0;
        if (d > 0 && d < step) step = d;
    }
    assert_true(distinct <= 1 << bits);
    if (distinct > 1) assert_true((sorted[n - 1] - sorted[0]) / step <= (1 << bits) - 1 + 1e-3);
}

static void groups_have_at_most_2_to_the_bits_values(void **state)
{
    (void)state;
    struct layer l = layer_make(20, 150, 400);
    l.w[3 * 150 + 7] = 9; /* an outlier */
    EACH_CHOSEN(s)
    {
        const struct quant_method *m = s.method;
        if (!(s.results & QUANT_UNIFORM_GRID)) continue;
        const int64_t groups[] = {64, 32, 7, 150, 1000, -1};
        for (int g = 0; g < 6; g++)
            for (int asymmetric = 0; asymmetric < 2; asymmetric++) {
                struct quant_options o = subject_options(&s, groups[g]);
                struct quant_report r;
                o.symmetric = !asymmetric;
                float *q = quantize(&l, m, m->bits_min, &o, &r);
                int64_t size = groups[g] < 0 || groups[g] > 150 ? 150 : groups[g];
                for (int64_t i = 0; i < l.rows; i++)
                    for (int64_t a = 0; a < l.cols; a += size)
                        group_check(q + i * l.cols + a, a + size > l.cols ? l.cols - a : size,
                                    m->bits_min);
                free(q);
            }
    }
    layer_free(&l);
}

/* Rows are independent: an outlier, a row of zeros and a positive row do not affect others, and a
 * row alone gives the same bits as among others. */
static void rows_are_independent(void **state)
{
    (void)state;
    struct layer l = layer_make(70, 132, 400);
    for (int64_t j = 0; j < 132; j++) {
        l.w[5 * 132 + j] = 0;
        l.w[6 * 132 + j] = fabsf(l.w[6 * 132 + j]);
    }
    l.w[9 * 132 + 100] = 50;
    EACH_CHOSEN(s)
    {
        const struct quant_method *m = s.method;
        struct quant_options o = subject_options(&s, 48);
        struct quant_report r;
        float *all = quantize(&l, m, m->bits_max, &o, &r);
        for (int64_t j = 0; j < 132 && s.results & QUANT_ZERO_IS_ZERO; j++)
            assert_true(all[5 * 132 + j] == 0);
        for (int64_t i = 9; i < l.rows && s.results & QUANT_ROWS_ALONE; i += 19) {
            struct layer one = l;
            one.rows = 1;
            one.w = l.w + i * l.cols;
            float *q = quantize(&one, m, m->bits_max, &o, &r);
            assert_memory_equal(q, all + i * l.cols, (size_t)l.cols * sizeof *q);
            free(q);
        }
        free(all);
    }
    layer_free(&l);
}

static void the_smallest_matrices_are_quantized(void **state)
{
    (void)state;
    const int64_t shape[][2] = {{1, 1}, {3, 1}, {1, 2}, {65, 3}};
    for (int k = 0; k < 4; k++) {
        struct layer l = layer_make(shape[k][0], shape[k][1], 5);
        EACH_CHOSEN(s)
        {
            const struct quant_method *m = s.method;
            if (s.mixed && l.cols == 3) continue; /* there is no mixing of 3 columns */
            for (int g = 0; g < 3; g++) {
                struct quant_options o = subject_options(&s, (const int64_t[]){-1, 1, 128}[g]);
                struct quant_report r;
                o.symmetric = false;
                float *q = quantize(&l, m, m->bits_max, &o, &r);
                for (int64_t i = 0; i < l.rows * l.cols; i++)
                    assert_true(fabsf(q[i] - l.w[i]) < 0.05f);
                /* A group of one weight ends at it: it stays there, or at random one step away. */
                const float steps = (float)(1 << m->bits_max) - 1;
                for (int64_t i = 0; i < l.rows && l.cols == 1; i++)
                    if (s.results & QUANT_UNIFORM_GRID)
                        assert_true(fabsf(q[i] - l.w[i]) < 1.01f * fabsf(l.w[i]) / steps);
                free(q);
            }
        }
        layer_free(&l);
    }
}

/* Channels without input: all results are finite, and zero if the Hessian shows that the channel is
 * dead. */
static void dead_channels_give_finite_results(void **state)
{
    (void)state;
    struct layer l = layer_make(10, 96, 300), none = layer_make(10, 96, 300);
    for (int64_t i = 0; i < 96; i++) {
        l.gram[i < 40 ? i * 96 + 40 : 40 * 96 + i] = 0;
        for (int64_t j = 0; j < 96; j++) none.gram[i * 96 + j] = 0;
    }
    EACH_CHOSEN(s)
    {
        const struct quant_method *m = s.method;
        struct quant_options o = subject_options(&s, 32);
        struct quant_report r;
        float *q = quantize(&l, m, m->bits_max, &o, &r);
        for (int64_t i = 0; i < l.rows && s.results & QUANT_DEAD_IS_ZERO; i++)
            assert_true(q[i * 96 + 40] == 0);
        free(q);
        q = quantize(&none, m, m->bits_max, &o, &r); /* no input at all */
        for (int64_t i = 0; i < 960; i++) assert_true(isfinite(q[i]));
        free(q);
    }
    layer_free(&l), layer_free(&none);
}

static void a_weight_that_is_no_number_is_named(void **state)
{
    (void)state;
    const float bad[] = {NAN, INFINITY, -INFINITY};
    EACH_CHOSEN(s)
    {
        const struct quant_method *m = s.method;
        for (int b = 0; b < 3; b++) {
            struct layer l = layer_make(70, 40, 100);
            struct quant_options o = subject_options(&s, 16);
            struct quant_report r;
            struct err e = {0};
            float *q;
            l.w[66 * 40 + 39] = bad[b];
            assert_int_equal(layer_quantize(&l, m, m->bits_min, &o, &q, &r, &e), ERR_NUMERIC);
            assert_non_null(strstr(e.text, "row 66, column 39"));
            free(q);
            layer_free(&l);
        }
        /* The range of the row overflows; a format without zeros can still hold it. */
        struct layer l = layer_make(3, 2, 100);
        struct quant_options o = subject_options(&s, -1);
        struct quant_report r;
        struct err e = {0};
        float *q;
        l.w[2] = 3e38f;
        l.w[3] = -3e38f;
        if (layer_quantize(&l, m, m->bits_max, &o, &q, &r, &e) == OK) {
            for (int64_t i = 0; i < 6; i++) assert_true(isfinite(q[i]));
            assert_false(s.results & QUANT_UNIFORM_GRID);
        } else {
            assert_int_equal(e.code, ERR_NUMERIC);
            if (!s.mixed) assert_non_null(strstr(e.text, "row 1"));
        }
        free(q);
        layer_free(&l);
    }
}

/* Weights so small that a scale would underflow. */
static void tiny_weights_stay_tiny(void **state)
{
    (void)state;
    EACH_CHOSEN(s)
    {
        const struct quant_method *m = s.method;
        struct layer l = layer_make(4, 32, 100);
        struct quant_options o = subject_options(&s, 16);
        struct quant_report r;
        for (int64_t i = 0; i < 4 * 32; i++) l.w[i] = 1e-45f;
        float *q = quantize(&l, m, m->bits_max, &o, &r);
        for (int64_t i = 0; i < 4 * 32; i++) assert_true(fabsf(q[i]) < 1e-30f);
        free(q);
        layer_free(&l);
    }
}

static void options_of_other_methods_are_refused(void **state)
{
    (void)state;
    struct err e = {0};
    const int64_t bits = 4;
    struct quant_options o;
    options_default(&quant_table, &o);
    assert_int_equal(quant_check("gptq", &o, &bits, 1, &e), OK);
    o.damping = 0.05;
    assert_int_equal(quant_check("gptq", &o, &bits, 1, &e), OK);
    assert_int_equal(quant_check("rtn", &o, &bits, 1, &e), ERR_USAGE);
    assert_non_null(strstr(e.text, "rtn has no option damping"));
    err_clear(&e);
    assert_int_equal(quant_check("gtpq", &o, &bits, 1, &e), ERR_USAGE);
    assert_non_null(strstr(e.text, "did you mean gptq"));
    err_clear(&e);
    const int64_t widths[] = {3, 4};
    options_default(&quant_table, &o);
    assert_int_equal(quant_check("nf4", &o, widths, 2, &e), OK);
    assert_int_equal(quant_check("nf4", &o, widths, 1, &e), ERR_USAGE);
    assert_non_null(strstr(e.text, "from 4 to 4 bits"));
    err_clear(&e);
    option_set(&o, "--trellis-window", "12");
    assert_int_equal(quant_check("trellis", &o, widths, 2, &e), OK);
    option_set(&o, "--trellis-code", "hyb");
    assert_int_equal(quant_check("trellis", &o, widths, 2, &e), ERR_USAGE);
    assert_non_null(strstr(e.text, "at 4 bits hyb needs at least 16"));
}

int main(int argc, char **argv)
{
    only = argc > 1 ? argv[1] : NULL;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_table_is_consistent),
        cmocka_unit_test(same_bits_for_any_threads),
        cmocka_unit_test(same_codes_for_any_instruction_set),
        cmocka_unit_test(more_bits_have_less_error),
        cmocka_unit_test(groups_have_at_most_2_to_the_bits_values),
        cmocka_unit_test(rows_are_independent),
        cmocka_unit_test(the_smallest_matrices_are_quantized),
        cmocka_unit_test(dead_channels_give_finite_results),
        cmocka_unit_test(a_weight_that_is_no_number_is_named),
        cmocka_unit_test(tiny_weights_stay_tiny),
        cmocka_unit_test(options_of_other_methods_are_refused),
    };
    linalg_setup();
    return cmocka_run_group_tests(tests, NULL, NULL);
}

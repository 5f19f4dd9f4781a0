/* Mixings: Hadamard matrices of the families' dimensions, and rtn and gptq of mixed weights
 * against IST-DASLab's implementation (tests/fixtures/mixing). */
#include "fixture.h"
#include "math/hadamard.h"
#include "math/linalg.h"
#include "quant/mixing.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

/* Hᵀ H = n I, where column i of H_n is a product with the i-th unit vector, and back. */
static void order_check(int64_t n)
{
    int64_t k = hadamard_factor(n);
    if (k == 0) fail_msg("no Hadamard matrix of order %lld", (long long)n);
    int8_t *h = malloc((size_t)(k * k));
    hadamard_make(h, k);
    for (int64_t i = 0; i < k; i++)
        for (int64_t j = i; j < k; j++) {
            int64_t sum = 0;
            for (int64_t a = 0; a < k; a++) {
                assert_true(h[i * k + a] == 1 || h[i * k + a] == -1);
                sum += h[i * k + a] * h[j * k + a];
            }
            assert_int_equal(sum, i == j ? k : 0);
        }
    double *x = malloc((size_t)(2 * n) * sizeof *x);
    for (int64_t i = 0; i < n; i += n / 7 + 1) {
        for (int64_t j = 0; j < n; j++) x[j] = j == i ? 1 : 0;
        hadamard_row(x, n, h, k, false, x + n);
        for (int64_t j = 0; j < n; j++) assert_true(fabs(x[j]) == 1);
        hadamard_row(x, n, h, k, true, x + n);
        for (int64_t j = 0; j < n; j++) assert_true(x[j] == (j == i ? (double)n : 0));
    }
    free(x);
    free(h);
}

/* Input channels of the published models of every family: hidden sizes, sizes of all heads
 * together, widths of the MLP. */
static void published_widths_have_a_mixing(void **state)
{
    (void)state;
    const int64_t orders[] = {
        512,   768,   1024,  2048,  2560,  3072,  4096, 5120, 8192, 10240, 20480, /* Pythia */
        11008, 13824, 27648,                      /* OLMo 1 to 3, Amber, SmolLM3 */
        21504, 43008,                             /* Apertus */
        2256,  3840,  5440,                       /* OpenSci */
        576,   960,   1536,                       /* SmolLM 1 and 2 */
        896,   3584,  4864,  8960,  18944, 29568, /* Qwen 2 */
        6144,  9728,  12288, 17408, 25600,        /* Qwen 3 */
        6656,  14336, 17920, 22016, 28672,        /* Llama 1 to 3 */
        1,     2,     12,    20,    28,    36,    40,   52,   60,   108,   140,   172, 340};
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) order_check(orders[i]);
    assert_int_equal(hadamard_factor(14336), 28);
    assert_int_equal(hadamard_factor(13824), 108);
    assert_int_equal(hadamard_factor(11008), 172);
    assert_int_equal(hadamard_factor(4096), 1);
}

/* Odd multiples of 1 and 2 have no matrix; of 92 and 116 none is constructed here. */
static void orders_without_a_matrix_are_refused(void **state)
{
    (void)state;
    const int64_t orders[] = {0, 3, 6, 50, 92, 116, 4 * 999};
    struct quant_options o;
    options_default(&quant_table, &o);
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        struct err e = {0};
        struct mixing *r;
        o.mixing = MIXING_NONE;
        assert_int_equal(mixing_make(&r, &o, 0, orders[i], &e), OK);
        assert_null(r);
        o.mixing = MIXING_HADAMARD;
        assert_int_equal(mixing_make(&r, &o, 0, orders[i], &e), ERR_USAGE);
        assert_non_null(strstr(e.text, "no Hadamard matrix of order"));
        assert_null(r);
    }
}

/* --- against the reference --- */

struct sample {
    struct fixture file;
    struct fixture_tensor w, h;
    struct quant_input in;
    struct quant_options options;
};

static struct sample sample_open(const char *name)
{
    struct sample s = {0};
    double *gram;
    assert_true(fixture_open(&s.file, FIXTURES "/mixing", name));
    s.w = fixture_get(&s.file, "W");
    s.h = fixture_get(&s.file, "H");
    int64_t n = s.h.dim[0];
    assert_int_equal(mem_zero(&gram, n * n, sizeof *gram, "a Gram", NULL), OK);
    for (int64_t i = 0; i < n * n; i++) gram[i] = (double)s.h.f[i];
    /* H = 2 / samples of the sums */
    s.in = (struct quant_input){.layer = json_integer_value(json_object_get(s.file.meta, "salt")),
                                .cols = n,
                                .samples = 2,
                                .tokens = 2,
                                .statistic[STATISTIC_GRAM] = gram};
    options_default(&quant_table, &s.options);
    s.options.mixing = MIXING_HADAMARD;
    return s;
}

static void sample_close(struct sample *s)
{
    free((double *)(uintptr_t)s->in.statistic[STATISTIC_GRAM]);
    fixture_close(&s->file);
}

static const char *const names[] = {"hadamard_64", "hadamard_96", "hadamard_128"};
enum { N_NAMES = 3 };

/* Rows of the unit matrix give R. */
static void the_matrix_is_that_of_the_reference(void **state)
{
    (void)state;
    for (int k = 0; k < N_NAMES; k++) {
        struct sample s = sample_open(names[k]);
        struct mixing *r;
        int64_t n = s.in.cols;
        const int8_t *sign = fixture_get(&s.file, "Rsign").data;
        const float *mixed = fixture_get(&s.file, "Hr").f;
        float *x = calloc((size_t)(n * n), sizeof *x);
        double *gram = malloc((size_t)(n * n) * sizeof *gram);
        assert_int_equal(mixing_make(&r, &s.options, s.in.layer, n, NULL), OK);
        for (int64_t i = 0; i < n; i++) x[i * n + i] = 1;
        assert_int_equal(mixing_rows(r, x, x, 0, n, false, NULL), OK);
        for (int64_t i = 0; i < n * n; i++)
            assert_true(fabs((double)x[i] * sqrt((double)n) - sign[i]) < 1e-6);
        assert_int_equal(mixing_rows(r, x, x, 0, n, true, NULL), OK);
        for (int64_t i = 0; i < n * n; i++)
            assert_true(fabsf(x[i] - (i % (n + 1) == 0 ? 1.0f : 0.0f)) < 1e-6f);
        memcpy(gram, s.in.statistic[STATISTIC_GRAM], (size_t)(n * n) * sizeof *gram);
        mixing_gram(r, gram);
        for (int64_t i = 0; i < 16 * n; i++) {
            double size = sqrt(gram[i / n * (n + 1)] * gram[i % n * (n + 1)]);
            assert_true(fabs(gram[i] - (double)mixed[i]) <= 1e-6 * size);
        }
        free(gram);
        free(x);
        mixing_free(r);
        sample_close(&s);
    }
}

struct tally {
    int cases;
    int64_t rows, differ;
};

/* Rows in which all codes agree are equal up to the rounding of the last product. */
static void case_check(const struct sample *s, const char *method, const char *key, struct tally *t)
{
    const struct quant_method *m = quant_find(method);
    const float *expected = fixture_get(&s->file, key).f;
    const char *setting = strchr(key, '.') + 1;
    struct quant_options o = s->options;
    struct quant_report report;
    struct err e = {0};
    void *prepared = NULL;
    int64_t rows = s->w.dim[0], cols = s->w.dim[1];
    float *q = malloc((size_t)(rows * cols) * sizeof *q);
    o.group_size = setting[4] == 'a' ? -1 : atoi(setting + 4);
    o.symmetric = !strstr(setting, "asym");
    if (m->prepare && m->prepare(&s->in, &o, &prepared, &e) != OK) fail_msg("%s", e.text);
    const struct quant_job job = {.bits = setting[1] - '0',
                                  .options = &o,
                                  .layer = s->in.layer,
                                  .rows = rows,
                                  .cols = cols,
                                  .w = s->w.f,
                                  .q = q,
                                  .input = &s->in,
                                  .prepared = prepared};
    if (m->run(&job, &report, &e) != OK) fail_msg("%s", e.text);
    if (prepared) m->release(prepared);
    for (int64_t i = 0; i < rows; i++) {
        float most = 0, miss = 0;
        for (int64_t j = i * cols; j < (i + 1) * cols; j++) {
            most = fmaxf(most, fabsf(expected[j]));
            miss = fmaxf(miss, fabsf(q[j] - expected[j]));
        }
        t->differ += miss > 1e-6f * most;
    }
    t->rows += rows;
    t->cases++;
    free(q);
}

static void rotated_methods_are_those_of_the_reference(void **state)
{
    (void)state;
    struct tally rtn = {0}, gptq = {0};
    for (int k = 0; k < N_NAMES; k++) {
        struct sample s = sample_open(names[k]);
        const char *key;
        json_t *value;
        json_object_foreach(s.file.header, key, value) {
            if (strncmp(key, "rtn.", 4) == 0) case_check(&s, "rtn", key, &rtn);
            if (strncmp(key, "gptq.", 5) == 0) case_check(&s, "gptq", key, &gptq);
        }
        sample_close(&s);
    }
    printf("rows that differ: rtn %lld of %lld, gptq %lld of %lld\n", (long long)rtn.differ,
           (long long)rtn.rows, (long long)gptq.differ, (long long)gptq.rows);
    assert_int_equal(rtn.cases, 15);
    assert_int_equal(gptq.cases, 15);
    /* One code that flips at a tie moves its whole row. */
    assert_true(rtn.differ <= rtn.rows / 50);
    assert_true(gptq.differ <= gptq.rows / 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_widths_have_a_mixing),
        cmocka_unit_test(orders_without_a_matrix_are_refused),
        cmocka_unit_test(the_matrix_is_that_of_the_reference),
        cmocka_unit_test(rotated_methods_are_those_of_the_reference),
    };
    linalg_setup();
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Coding in blocks with feedback against QTIP's authors' code (tests/fixtures/trellis): the block
 * LDL factor, states, and the layers' errors. */
#include "coding/feedback.h"
#include "coding/viterbi.h"
#include "fixture.h"
#include "math/dtype.h"
#include "math/hadamard.h"
#include "math/linalg.h"
#include "util/mem.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

static struct fixture fixture;

enum { BLOCK = 16, COLS_MOST = 128 };

static const float *tensor(const char *layer, const char *name)
{
    char key[64];
    snprintf(key, sizeof key, "%s.%s", layer, name);
    const float *f = fixture_get(&fixture, key).f;
    assert_non_null(f);
    return f;
}

static int64_t number(const json_t *entry, const char *key)
{
    return json_integer_value(json_object_get(entry, key));
}

/* h (n, n) = the fixture's Hessian after its signs and Hadamard matrix. */
static void hessian_mixed(const char *layer, int64_t n, double *h)
{
    const float *from = tensor(layer, "H"), *sign = tensor(layer, "SU");
    const int8_t one = 1;
    for (int64_t i = 0; i < n * n; i++)
        h[i] = (double)from[i] * (double)sign[i / n] * (double)sign[i % n] / (double)n;
    for (int turn = 0; turn < 2; turn++)
        for (int64_t i = 0; i < n; i++) {
            hadamard_row(h + i * n, n, &one, 1, false, NULL);
            for (int64_t j = 0; turn == 0 && i == n - 1 && j < n * n; j++)
                if (j / n < j % n) {
                    const double other = h[j];
                    h[j] = h[j % n * n + j / n];
                    h[j % n * n + j / n] = other;
                }
        }
}

/* Where the factor has row l of the column j of L. */
static int64_t factor_at(int64_t n, int64_t l, int64_t j)
{
    const int64_t a = (n / BLOCK - 1 - j / BLOCK) * BLOCK; /* columns after the block */
    const int64_t row = (n / BLOCK - 1 - l / BLOCK) * BLOCK + l % BLOCK;
    return a * (a - BLOCK) / 2 + row * BLOCK + j % BLOCK;
}

struct coder {
    struct bitshift code;
    struct viterbi viterbi;
    const int32_t *expected;     // (rows, cols / values) of the band
    int64_t cols, differ, tiles; /* tiles: coded so far, from the right */
};

static void code_tile(void *context, const float *x, uint8_t *bytes, float *q)
{
    struct coder *c = context;
    const int64_t values = c->code.values, steps = 256 / values, n = c->cols / BLOCK;
    const int64_t at = n - 1 - c->tiles++ % n;
    int32_t state[256];
    float rounded[256];
    for (int i = 0; i < 256; i++) rounded[i] = dtype_round_f16(x[i]);
    viterbi_tail_biting(&c->code, &c->viterbi, rounded, steps, state);
    for (int64_t k = 0; k < steps; k++) {
        const int64_t per = BLOCK / values;
        c->differ += state[k] != c->expected[k / per * (c->cols / values) + at * per + k % per];
        for (int64_t v = 0; v < values; v++)
            q[k * values + v] = c->code.value[state[k] * values + v];
    }
    memcpy(bytes, q, 256 * sizeof *q);
}

/* feedback_band with codes that are the numbers themselves; q (BAND_ROWS, cols). */
static void band(const struct feedback *f, const float *x, float *q, struct coder *c,
                 struct feedback_sums *sums)
{
    static float scratch[2 * BAND_ROWS * COLS_MOST], codes[BAND_ROWS * COLS_MOST];
    feedback_band(f, x, (uint8_t *)codes, 256 * sizeof *codes, code_tile, c, scratch, sums);
    for (int64_t k = 0; k < BAND_ROWS * c->cols; k++)
        q[k / BLOCK % BAND_ROWS * c->cols + k / 256 * BLOCK + k % BLOCK] = codes[k];
}

static void factor_check(const char *name, int64_t n, struct feedback *f, double *h)
{
    const float *expected = tensor(name, "L");
    double mean = 0, most = 0;
    for (int64_t i = 0; i < n; i++) mean += h[i * n + i] / (double)n;
    for (int64_t i = 0; i < n; i++) h[i * n + i] += 0.01 * mean;
    assert_int_equal(feedback_make(f, h, NULL), OK);
    for (int64_t l = 0; l < n; l++)
        for (int64_t j = 0; j < l / BLOCK * BLOCK; j++)
            most = fmax(most,
                        fabs((double)f->factor[factor_at(n, l, j)] - (double)expected[l * n + j]));
    printf("%s: L differs by %.1e at most\n", name, most);
    assert_true(most < 2e-5);
}

/* tr(A H Aᵀ) */
static double product(const float *a, const double *h, int64_t rows, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < n; j++)
            for (int64_t k = 0; k < n; k++)
                sum += (double)a[i * n + j] * h[j * n + k] * (double)a[i * n + k];
    return sum;
}

static void check_layer(const char *name, const json_t *entry)
{
    const int64_t rows = number(entry, "rows"), n = number(entry, "cols");
    const char *mode = json_string_value(json_object_get(entry, "mode"));
    const int kind = strcmp(mode, "1mad") == 0    ? BITSHIFT_1MAD
                     : strcmp(mode, "3inst") == 0 ? BITSHIFT_3INST
                                                  : BITSHIFT_HYB;
    const float *w = tensor(name, "Wr"), scale = *tensor(name, "scale"), *l = tensor(name, "L");
    static double h[COLS_MOST * COLS_MOST];
    static float x[48 * COLS_MOST], q[48 * COLS_MOST];
    struct coder c = {.cols = n};
    struct feedback f;
    double loss = 0, weight = 0;
    assert_int_equal(bitshift_make(kind, number(entry, "L"), number(entry, "K"),
                                   fixture_get(&fixture, "hyb.table").f, &c.code, NULL),
                     OK);
    assert_int_equal(viterbi_make(&c.code, 256, &c.viterbi, NULL), OK);
    assert_int_equal(feedback_room(&f, n, BLOCK, NULL), OK);
    const bool power = (n & (n - 1)) == 0; /* else the authors' Hadamard matrix is another */
    if (power) hessian_mixed(name, n, h);
    if (power) factor_check(name, n, &f, h);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < i / BLOCK * BLOCK; j++) f.factor[factor_at(n, i, j)] = l[i * n + j];
    for (int64_t i = 0; i < rows * n; i++) x[i] = w[i] / scale;
    for (int64_t i = 0; i < rows; i += BAND_ROWS) {
        struct feedback_sums s;
        c.expected = (const int32_t *)tensor(name, "states") + i * n / c.code.values;
        band(&f, x + i * n, q + i * n, &c, &s);
        loss += s.loss;
        weight += s.weight;
    }
    printf("%s: %lld of %lld states differ\n", name, (long long)c.differ,
           (long long)(rows * n / c.code.values));
    if (c.differ > rows * n / 50) fail();
    if (power) {
        const double expected = json_real_value(json_object_get(entry, "proxy"));
        double sums[2] = {0};
        hessian_mixed(name, n, h);
        for (int64_t i = 0; i < rows * n; i++) q[i] = x[i] - q[i];
        sums[0] = product(q, h, rows, n);
        sums[1] = product(x, h, rows, n);
        printf("%s: error %.9f, the authors' %.9f\n", name, sums[0] / sums[1], expected);
        assert_true(fabs(sums[0] / sums[1] / expected - 1) < 1e-4);
        /* The sums of the bands are those of the damped Hessian. */
        double mean = 0;
        for (int64_t i = 0; i < n; i++) mean += h[i * n + i] / (double)n;
        for (int64_t i = 0; i < n; i++) h[i * n + i] += 0.01 * mean;
        assert_true(fabs(loss / product(q, h, rows, n) - 1) < 1e-4);
        assert_true(fabs(weight / product(x, h, rows, n) - 1) < 1e-4);
        struct feedback_sums s; /* without feedback: more error, by the same sums */
        f.open = true;
        band(&f, x, q, &c, &s);
        const double plain = s.loss;
        for (int64_t i = 0; i < BAND_ROWS * n; i++) q[i] = x[i] - q[i];
        assert_true(fabs(plain / product(q, h, BAND_ROWS, n) - 1) < 1e-4);
        f.open = false;
        band(&f, x, q, &c, &s);
        assert_true(s.loss < plain);
    }
    feedback_free(&f);
    viterbi_free(&c.viterbi);
    bitshift_free(&c.code);
}

static void layers_are_those_of_the_authors(void **state)
{
    (void)state;
    const char *name;
    json_t *entry;
    json_object_foreach(json_object_get(fixture.meta, "layers"), name, entry)
        check_layer(name, entry);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(layers_are_those_of_the_authors)};
    linalg_setup();
    if (!fixture_open(&fixture, FIXTURES "/trellis", "trellis")) return 1;
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    fixture_close(&fixture);
    return failed;
}

/* GPTQ against the textbook form, and identities that hold for any numbers. */
#include "layer.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

static float *quantize(const struct layer *l, const char *method, int64_t bits,
                       const struct quant_options *o, struct quant_report *report)
{
    float *q;
    struct err e = {0};
    if (layer_quantize(l, quant_find(method), bits, o, &q, report, &e) != OK)
        fail_msg("%s", e.text);
    return q;
}

static int64_t differing(const float *p, const float *q, int64_t n)
{
    int64_t differ = 0;
    for (int64_t i = 0; i < n; i++) differ += fabsf(p[i] - q[i]) > 1e-4f * fabsf(p[i]) + 1e-7f;
    return differ;
}

/* H = 2/samples gram, damped, whole matrix. */
static double *hessian_make(const struct layer *l, double damping)
{
    int64_t n = l->cols;
    double *h, mean = 0;
    assert_int_equal(mem_alloc(&h, n * n, sizeof *h, "H", NULL), OK);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++)
            h[i * n + j] = 2.0 / (double)l->input.samples * l->gram[i < j ? i * n + j : j * n + i];
    for (int64_t i = 0; i < n; i++) mean += h[i * n + i] / (double)n;
    for (int64_t i = 0; i < n; i++) h[i * n + i] += damping * mean;
    return h;
}

struct line {
    float scale, zero;
};

/* The grid in f32 as defined: the end of a symmetric range is a tie there. */
static struct line line_fit(const double *w, int64_t n, float maxq, bool symmetric)
{
    float low = 0, high = 0;
    for (int64_t j = 0; j < n; j++) low = fminf(low, (float)w[j]), high = fmaxf(high, (float)w[j]);
    if (symmetric) high = fmaxf(-low, high), low = low < 0 ? -high : low;
    float scale = (high - low) / maxq;
    return (struct line){scale, symmetric ? (maxq + 1) / 2 : nearbyintf(-low / scale)};
}

static double line_round(double x, struct line line, float maxq)
{
    float code = nearbyintf((float)x / line.scale) + line.zero;
    return (double)(line.scale * (fminf(fmaxf(code, 0), maxq) - line.zero));
}

/* A quotient this close to a tie may round either way in f32. If a symmetric group begins a block
 * this is common: the weight that sets the scale is at the end of the range by construction, and
 * the last bit of its compensation, which depends on the BLAS kernel, decides. */
static bool near_tie(double quotient)
{
    return fabs(fabs(quotient - floor(quotient)) - 0.5) < 1e-4;
}

/* The textbook form in f64: U with H^-1 = Uᵀ U; errors are propagated at once within the block and
 * at its end to later blocks. One row; w changes. *soft: it met a tie. */
static double textbook_row(double *w, double *q, const double *u, int64_t n, int64_t bits,
                           const struct quant_options *o, bool *soft)
{
    float maxq = (float)((1 << bits) - 1);
    double loss = 0, *now = malloc((size_t)n * sizeof *now);
    double *original = malloc((size_t)n * sizeof *original);
    struct line line = line_fit(w, n, maxq, o->symmetric);
    memcpy(original, w, (size_t)n * sizeof *w);
    *soft = false;
    for (int64_t a = 0; a < n; a += o->block_size) {
        int64_t b = a + o->block_size < n ? a + o->block_size : n, g = o->group_size;
        memcpy(now, w, (size_t)n * sizeof *w);
        for (int64_t i = a; i < b; i++) {
            if (g > 0 && i % g == 0)
                line = line_fit((o->static_groups ? original : w) + i, i + g < n ? g : n - i, maxq,
                                o->symmetric);
            *soft |= near_tie(now[i] / (double)line.scale);
            q[i] = line_round(now[i], line, maxq);
            double error = (now[i] - q[i]) / u[i * n + i];
            loss += error * error;
            for (int64_t j = i; j < n; j++) now[j] -= error * u[i * n + j];
        }
        memcpy(w + b, now + b, (size_t)(n - b) * sizeof *w);
    }
    free(now), free(original);
    return loss;
}

static double textbook(const struct layer *l, int64_t bits, const struct quant_options *o,
                       float *out, bool *soft)
{
    int64_t n = l->cols;
    double *h = hessian_make(l, o->damping), *u = malloc((size_t)(n * n) * sizeof *u), loss = 0;
    double *w = malloc((size_t)n * sizeof *w), *q = malloc((size_t)n * sizeof *q);
    assert_int_equal(chol_upper(h, n, NULL), OK);
    assert_int_equal(triangular_inverse(u, h, n, 0, n, NULL), OK);
    for (int64_t r = 0; r < l->rows; r++) {
        for (int64_t j = 0; j < n; j++) w[j] = (double)l->w[r * n + j];
        loss += textbook_row(w, q, u, n, bits, o, &soft[r]);
        for (int64_t j = 0; j < n; j++) out[r * n + j] = (float)q[j];
    }
    free(h), free(u), free(w), free(q);
    return loss;
}

enum { ROWS = 24, COLS = 230 };

/* Groups and blocks of all proportions: groups inside a block, across its end, over several blocks,
 * over the whole row; sizes that do not divide. Rows without a tie have exactly the textbook's
 * codes: scales from weights with too few or too many updates would change most of them. */
static void codes_are_the_textbooks(void **state)
{
    (void)state;
    const int64_t sizes[][2] = {{32, 128}, {96, 32}, {50, 7},   {7, 50},    {200, 64}, {64, 64},
                                {40, 1},   {4, 40},  {1000, 9}, {100, 300}, {-1, 64},  {33, 32}};
    struct layer l = layer_make(ROWS, COLS, 500);
    int rows = 0, soft_rows = 0;
    float *expected = malloc(ROWS * COLS * sizeof *expected);
    for (int s = 0; s < 12; s++)
        for (int kind = 0; kind < 4; kind++) {
            struct quant_options o = options_make(sizes[s][0]);
            struct quant_report r;
            bool soft[ROWS];
            int before = soft_rows;
            o.block_size = sizes[s][1];
            o.symmetric = kind & 1;
            o.static_groups = kind & 2;
            double loss = textbook(&l, 4, &o, expected, soft);
            float *q = quantize(&l, "gptq", 4, &o, &r);
            for (int i = 0; i < ROWS; i++) {
                rows++;
                soft_rows += soft[i];
                if (!soft[i] && differing(expected + i * COLS, q + i * COLS, COLS) > 0)
                    fail_msg("group %d, block %d, kind %d: row %d differs", (int)sizes[s][0],
                             (int)sizes[s][1], kind, i);
            }
            /* A tie that rounds the other way changes the row's loss by a similar amount. */
            double allowed = soft_rows == before ? 1e-4 : 0.2 * (soft_rows - before) / ROWS;
            assert_true(fabs(2 * r.error - loss) < allowed * loss);
            free(q);
        }
    printf("%d of %d rows met a tie\n", soft_rows, rows);
    assert_true(4 * soft_rows < rows);
    free(expected);
    layer_free(&l);
}

/* tr(M H Mᵀ) in f64. */
static double trace_form(const double *h, const float *w, const float *q, int64_t rows, int64_t n)
{
    double sum = 0;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < n; i++) {
            double hi = 0;
            for (int64_t j = 0; j < n; j++)
                hi += h[i * n + j] * ((double)w[r * n + j] - (q ? (double)q[r * n + j] : 0));
            sum += hi * ((double)w[r * n + i] - (q ? (double)q[r * n + i] : 0));
        }
    return sum;
}

/* The figures of the report against their definitions, with a dead channel and an order. */
static void figures_of_the_report_are_as_defined(void **state)
{
    (void)state;
    struct layer l = layer_make(70, 200, 500);
    for (int64_t i = 0; i < 200; i++) l.gram[i < 40 ? i * 200 + 40 : 40 * 200 + i] = 0;
    for (int order = ORDER_NONE; order <= ORDER_ACTIVATION; order++)
        for (int64_t bits = 2; bits <= 8; bits += 3) {
            struct quant_options o = options_make(64);
            struct quant_report r;
            o.order = order;
            float *q = quantize(&l, "gptq", bits, &o, &r);
            double *h = hessian_make(&l, 0), distance = 0;
            double expected = trace_form(h, l.w, q, 70, 200) / trace_form(h, l.w, NULL, 70, 200);
            assert_true(fabs(r.relative_error - expected) < 1e-4 * expected);
            for (int64_t i = 0; i < 70 * 200; i++)
                distance += ((double)l.w[i] - (double)q[i]) * ((double)l.w[i] - (double)q[i]);
            assert_true(fabs(r.squared_distance - distance) < 1e-12 * distance);
            double stored = (double)bits + 4 * (16.0 + (double)bits) / 200;
            if (order == ORDER_ACTIVATION) stored += 32.0 / 70; /* the group of each column */
            assert_true(fabs(r.bits_per_weight - stored) < 1e-12);
            free(q), free(h);
        }
    layer_free(&l);
}

/* Uncorrelated channels need no compensation. */
static void uncorrelated_channels_are_rounded(void **state)
{
    (void)state;
    struct layer l = layer_make(70, 150, 300);
    for (int64_t i = 0; i < 150; i++)
        for (int64_t j = i + 1; j < 150; j++) l.gram[i * 150 + j] = 0;
    const int64_t groups[] = {-1, 32, 50};
    for (int g = 0; g < 3; g++)
        for (int order = ORDER_NONE; order <= ORDER_ACTIVATION; order++) {
            struct quant_options o = options_make(groups[g]);
            struct quant_report r;
            o.order = order;
            o.static_groups = order == ORDER_ACTIVATION; /* else groups have other columns */
            float *p = quantize(&l, "rtn", 3, &o, &r), *q = quantize(&l, "gptq", 3, &o, &r);
            for (int64_t i = 0; i < 70 * 150; i++) assert_true(p[i] == q[i]);
            free(p), free(q);
        }
    layer_free(&l);
}

/* Four times the Hessian doubles the factor, exactly. */
static void a_scaled_hessian_changes_nothing(void **state)
{
    (void)state;
    struct layer l = layer_make(70, 150, 300);
    struct quant_options o = options_make(64);
    struct quant_report r, s;
    float *p = quantize(&l, "gptq", 3, &o, &r);
    for (int64_t i = 0; i < 150 * 150; i++) l.gram[i] *= 4;
    float *q = quantize(&l, "gptq", 3, &o, &s);
    assert_memory_equal(p, q, (size_t)(70 * 150) * sizeof *p);
    assert_true(s.error == 4 * r.error);
    free(q);
    l.input.samples = 4;
    q = quantize(&l, "gptq", 3, &o, &s);
    assert_memory_equal(p, q, (size_t)(70 * 150) * sizeof *p);
    assert_true(s.error == r.error);
    free(p), free(q);
    layer_free(&l);
}

/* Blocks do not change results if no scale is determined inside them. */
static void blocks_do_not_change_results(void **state)
{
    (void)state;
    const int64_t sizes[] = {1, 32, 512};
    struct layer l = layer_make(70, 300, 700);
    struct quant_options o = options_make(-1);
    struct quant_report r;
    float *p = quantize(&l, "gptq", 4, &o, &r);
    for (int s = 0; s < 3; s++) {
        o.block_size = sizes[s];
        float *q = quantize(&l, "gptq", 4, &o, &r);
        assert_true((double)differing(p, q, 70 * 300) < 1e-3 * 70 * 300);
        free(q);
    }
    free(p);
    layer_free(&l);
}

/* GPTQ must have less error than rounding, and act-order less than GPTQ. */
static void gptq_has_less_error_than_rounding(void **state)
{
    (void)state;
    struct layer l = layer_make(70, 256, 700);
    struct quant_options o = options_make(-1);
    struct quant_report gptq, act;
    double *h = hessian_make(&l, 0);
    float *p = quantize(&l, "rtn", 3, &o, &gptq);
    free(quantize(&l, "gptq", 3, &o, &gptq));
    o.order = ORDER_ACTIVATION;
    free(quantize(&l, "gptq", 3, &o, &act));
    double rtn = trace_form(h, l.w, p, 70, 256) / trace_form(h, l.w, NULL, 70, 256);
    assert_true(gptq.relative_error < 0.7 * rtn);
    assert_true(act.relative_error < gptq.relative_error);
    free(p), free(h);
    layer_free(&l);
}

/* An indefinite Hessian: damping is raised tenfold, the report says so, and finally it is an error.
 */
static void damping_rises_until_it_suffices(void **state)
{
    (void)state;
    struct layer l = layer_make(10, 50, 200);
    struct quant_options o = options_make(-1);
    struct quant_report r;
    struct err e = {0};
    float *q;
    memset(l.gram, 0, 50 * 50 * sizeof *l.gram);
    for (int64_t i = 0; i < 50; i++) l.gram[i * 50 + i] = 1;
    l.gram[3 * 50 + 4] = 1.05; /* smallest eigenvalue -0.05 of the mean */
    free(quantize(&l, "gptq", 4, &o, &r));
    assert_true(r.damping == 0.1);
    o.damping = 0.06;
    free(quantize(&l, "gptq", 4, &o, &r));
    assert_true(r.damping == 0.06);
    l.gram[3 * 50 + 4] = 1 + 1e-6; /* more than the ulp of f32 that H is rounded to */
    o.damping = 0;
    free(quantize(&l, "gptq", 4, &o, &r));
    assert_true(r.damping == 1e-4);
    l.gram[3 * 50 + 4] = 12;
    o.damping = 0.01;
    assert_int_equal(layer_quantize(&l, quant_find("gptq"), 4, &o, &q, &r, &e), ERR_NUMERIC);
    assert_non_null(strstr(e.text, "damping of 10"));
    assert_non_null(strstr(e.text, "channel 3"));
    free(q);
    /* in steps: below 1 or not at all */
    err_clear(&e);
    o.damping_increment = 0.3;
    assert_int_equal(layer_quantize(&l, quant_find("gptq"), 4, &o, &q, &r, &e), ERR_NUMERIC);
    assert_non_null(strstr(e.text, "damping of 0.91"));
    free(q);
    l.gram[3 * 50 + 4] = 1.5;
    free(quantize(&l, "gptq", 4, &o, &r));
    assert_true(fabs(r.damping - 0.61) < 1e-12);
    layer_free(&l);
}

/* The group order uses the groups as they are in W: a row of one group, and groups longer than the
 * row, are processed in natural order or by decreasing diagonal. */
static void the_group_order_takes_whole_groups(void **state)
{
    (void)state;
    struct layer l = layer_make(70, 96, 300);
    struct quant_options o = options_make(1000);
    struct quant_report r;
    struct err e = {0};
    float *p = quantize(&l, "gptq", 3, &o, &r);
    o.order = ORDER_GROUP; /* no whole group: nothing to order */
    float *q = quantize(&l, "gptq", 3, &o, &r);
    assert_memory_equal(p, q, 70 * 96 * sizeof *p);
    free(p), free(q);
    o.group_size = 96; /* one group: ordered as a whole */
    q = quantize(&l, "gptq", 3, &o, &r);
    o.order = ORDER_ACTIVATION;
    p = quantize(&l, "gptq", 3, &o, &r);
    assert_memory_equal(p, q, 70 * 96 * sizeof *p);
    free(p), free(q);
    o.order = ORDER_GROUP;
    o.group_size = -1;
    assert_int_equal(quant_find("gptq")->check(3, &o, &e), ERR_USAGE);
    assert_non_null(strstr(e.text, "needs a group_size"));
    layer_free(&l);
}

/* A searched range has a smaller error by the measure of the search. */
static void a_searched_range_has_less_error(void **state)
{
    (void)state;
    struct layer l = layer_make(70, 100, 300);
    for (int symmetric = 0; symmetric < 2; symmetric++)
        for (int64_t bits = 2; bits <= 4; bits++) {
            struct quant_options o = options_make(64);
            struct quant_report plain, searched;
            o.symmetric = symmetric;
            free(quantize(&l, "rtn", bits, &o, &plain));
            o.range_search = 2;
            free(quantize(&l, "rtn", bits, &o, &searched));
            assert_true(searched.squared_distance < 0.99 * plain.squared_distance);
        }
    layer_free(&l);
}

static void gram_refused(struct layer *l, const char *text)
{
    struct quant_options o = options_make(-1);
    struct quant_report r;
    struct err e = {0};
    float *q;
    assert_int_equal(layer_quantize(l, quant_find("gptq"), 4, &o, &q, &r, &e), ERR_NUMERIC);
    assert_non_null(strstr(e.text, text));
    free(q);
}

static void a_bad_hessian_names_its_channels(void **state)
{
    (void)state;
    struct layer l = layer_make(10, 50, 200);
    l.gram[7 * 50 + 9] = NAN;
    gram_refused(&l, "channels 7 and 9 is nan");
    l.gram[7 * 50 + 9] = INFINITY;
    gram_refused(&l, "channels 7 and 9 is inf");
    l.gram[7 * 50 + 9] = 0;
    l.gram[8 * 50 + 8] = -1;
    gram_refused(&l, "-1 at input channel 8");
    l.input.samples = 0;
    gram_refused(&l, "no calibration sequences");
    layer_free(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(codes_are_the_textbooks),
        cmocka_unit_test(figures_of_the_report_are_as_defined),
        cmocka_unit_test(uncorrelated_channels_are_rounded),
        cmocka_unit_test(a_scaled_hessian_changes_nothing),
        cmocka_unit_test(blocks_do_not_change_results),
        cmocka_unit_test(gptq_has_less_error_than_rounding),
        cmocka_unit_test(damping_rises_until_it_suffices),
        cmocka_unit_test(a_bad_hessian_names_its_channels),
        cmocka_unit_test(the_group_order_takes_whole_groups),
        cmocka_unit_test(a_searched_range_has_less_error),
    };
    linalg_setup();
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Outlier columns of weights: against the codes of QUIK and Atom (tests/fixtures/activations), and
 * what follows from the definition of the least error. */
#include "fixture.h"
#include "layer.h"
#include "quant/grids.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

/* The fixture's layer, whose weights and inputs are borrowed. */
static struct layer layer_open(const struct fixture *f)
{
    const struct fixture_tensor w = fixture_get(f, "W"), x = fixture_get(f, "calibration");
    struct layer l = {.rows = w.dim[0], .cols = w.dim[1], .w = (float *)(uintptr_t)w.f};
    const int64_t tokens = x.dim[0] * x.dim[1], offset[] = {0, x.dim[1], tokens};
    const struct statistic_range all = {
        .x = x.f, .cols = l.cols, .offset = offset, .n = 2, .tokens = tokens};
    l.input = (struct quant_input){.cols = l.cols, .samples = 2, .tokens = tokens};
    for (int k = 0; k <= STATISTIC_MEAN_FULL; k++) {
        l.sums[k] = calloc((size_t)statistic_at(k)->count(l.cols), sizeof(double));
        l.input.statistic[k] = l.sums[k];
        assert_int_equal(statistic_at(k)->add(l.sums[k], &all, NULL), OK);
    }
    l.gram = l.sums[STATISTIC_GRAM];
    return l;
}

static float *quantize(const struct layer *l, const char *method, int64_t bits,
                       const struct quant_options *o, struct quant_report *r)
{
    const struct quant_method *m = quant_find(method);
    float *q = malloc((size_t)(l->rows * l->cols) * sizeof *q);
    void *prepared = NULL;
    struct err e = {0};
    if (quant_check(method, o, &bits, 1, &e) != OK) fail_msg("%s", e.text);
    if (m->prepare && m->prepare(&l->input, o, &prepared, &e) != OK) fail_msg("%s", e.text);
    const struct quant_job job = {.bits = bits,
                                  .options = o,
                                  .rows = l->rows,
                                  .cols = l->cols,
                                  .w = l->w,
                                  .q = q,
                                  .input = &l->input,
                                  .prepared = prepared};
    if (m->run(&job, r, &e) != OK) fail_msg("%s", e.text);
    if (prepared) m->release(prepared);
    return q;
}

/* y (48, 24) of the reference from its inputs and q, whose columns are in that order (NULL: as the
 * inputs'). */
static void check_outputs(const struct fixture *f, const char *name, const struct layer *l,
                          const float *q, const int32_t *order)
{
    char key[80];
    double most = 0;
    snprintf(key, sizeof key, "%s.xq", name);
    const float *x = json_object_get(f->header, key) ? fixture_get(f, key).f : NULL;
    snprintf(key, sizeof key, "%s.y", name);
    const struct fixture_tensor y = fixture_get(f, key);
    for (int64_t i = 0; i < y.dim[0] * y.dim[1]; i++) most = fmax(most, fabs((double)y.f[i]));
    for (int64_t i = 0; x && i < y.dim[0] * y.dim[1]; i++) {
        double sum = 0;
        for (int64_t j = 0; j < l->cols; j++)
            sum += (double)x[i / l->rows * l->cols + j] *
                   (double)q[i % l->rows * l->cols + (order ? order[j] : j)];
        assert_true(fabs(sum - (double)y.f[i]) <= 1e-5 * most);
    }
}

static void test_codes_of_the_references(void **state)
{
    (void)state;
    /* codes; a scale and zero for each group, of two rows with Atom; a scale of outliers; 32 bits
     * for each column, or each outlier */
    const double five = 5 * 20 / 2., atom = (4 * 80 + 8 * 16 + five + 16) / 96. + 32 / 24.,
                 quik = (4 * 88 + 16 * 8 + 20) / 96. + 32 * 8 / (24 * 96.);
    const struct {
        const char *name, *method;
        int64_t bits, group_size, outliers, outlier_bits;
        double search, factor, stored;
        int score;
        int64_t scale_rows; /* of Atom, whose columns are in order; 0: QUIK's */
        enum { NARROW, WIDE, ASYMMETRIC } range;
    } settings[] = {
        {"atom.hessian.W4A4", "rtn", 4, 16, 16, 8, 0, 0.85, atom, OUTLIER_SQUARES, 2, NARROW},
        {"atom.hessian.W4A4_gptq", "gptq", 4, 16, 16, 8, 0, 0.85, atom, OUTLIER_SQUARES, 2, WIDE},
        {"atom.hessian.W4A4_fpkeeper", "rtn", 4, 16, 16, 16, 0, 0.85,
         (4 * 80 + 16 * 16 + five) / 96. + 32 / 24., OUTLIER_SQUARES, 2, NARROW},
        {"atom.hessian.W4A4_keep8_g32", "rtn", 4, 32, 8, 8, 0, 0.85,
         (4 * 88 + 8 * 8 + 3 * 20 + 16) / 96. + 32 / 24., OUTLIER_SQUARES, 1, NARROW},
        {"atom.hessian.W4A4_asym", "rtn", 4, 16, 16, 8, 0, 0.85, atom, OUTLIER_SQUARES, 2,
         ASYMMETRIC},
        {"atom.hessian.W8A8", "rtn", 8, 16, 16, 8, 0, 1,
         (8 * 80 + 8 * 16 + 5 * 24 / 2. + 16) / 96. + 32 / 24., OUTLIER_SQUARES, 2, NARROW},
        {"atom.abs_mean.W4A4", "rtn", 4, 16, 16, 8, 0, 0.85, atom, OUTLIER_MEAN, 2, NARROW},
        {"quik.W4A4", "gptq", 4, -1, 8, 16, 2.4, 1, quik, OUTLIER_LARGEST, 0, NARROW},
        {"quik.W4A4_noclip", "gptq", 4, -1, 8, 16, 0, 1, quik, OUTLIER_LARGEST, 0, NARROW},
        {"quik.W4A4_none", "gptq", 4, -1, 0, 16, 2.4, 1, 4 + 20 / 96., OUTLIER_LARGEST, 0, NARROW},
        {"quik.W8A8", "gptq", 8, -1, 8, 16, 0, 1,
         (8 * 88 + 16 * 8 + 24) / 96. + 32 * 8 / (24 * 96.), OUTLIER_LARGEST, 0, NARROW},
    };
    struct fixture f;
    assert_true(fixture_open(&f, FIXTURES "/activations", "outliers"));
    struct layer l = layer_open(&f);
    for (size_t k = 0; k < sizeof settings / sizeof *settings; k++) {
        char key[80];
        struct quant_report r;
        struct quant_options o;
        options_default(&quant_table, &o);
        o.group_size = settings[k].group_size;
        o.narrow_range = settings[k].range == NARROW;
        o.symmetric = settings[k].range != ASYMMETRIC;
        o.range_search = settings[k].search;
        o.range_factor = settings[k].factor;
        o.outlier_columns = settings[k].outliers;
        o.outlier_bits = settings[k].outlier_bits;
        o.outlier_score = settings[k].score;
        o.scale_rows = settings[k].scale_rows ? settings[k].scale_rows : 1;
        const bool gptq = strcmp(settings[k].method, "gptq") == 0;
        snprintf(key, sizeof key, "%s.Wq", settings[k].name);
        const float *reference = fixture_get(&f, key).f;
        const char *own =
            settings[k].score == OUTLIER_MEAN ? "atom.abs_mean.order" : "atom.hessian.order";
        const int32_t *order = settings[k].scale_rows ? fixture_get(&f, own).data : NULL;
        const float allowed = gptq ? 2e-5f : 0; /* GPTQ's outliers take up errors */
        float *q = quantize(&l, settings[k].method, settings[k].bits, &o, &r);
        for (int64_t i = 0; i < l.rows; i++)
            for (int64_t j = 0; j < l.cols; j++) {
                const float x = q[i * l.cols + (order ? order[j] : j)];
                const float y = reference[i * l.cols + j];
                if (fabsf(x - y) > allowed)
                    fail_msg("%s: row %d, column %d: %g, not %g", settings[k].name, (int)i, (int)j,
                             (double)x, (double)y);
            }
        check_outputs(&f, settings[k].name, &l, q, order);
        assert_true(fabs(r.bits_per_weight - settings[k].stored) < 1e-12);
        free(q);
    }
    for (int k = 0; k < STATISTIC_N; k++) free(l.sums[k]);
    fixture_close(&f);
}

/* factor: the reference's score over the statistic. */
static void test_scores_and_orders_of_the_references(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int score;
        double factor;
    } orders[] = {{"atom.hessian", OUTLIER_SQUARES, 2. / 2},
                  {"atom.abs_mean", OUTLIER_MEAN, 1},
                  {"quik", OUTLIER_LARGEST, 1}};
    struct fixture f;
    assert_true(fixture_open(&f, FIXTURES "/activations", "outliers"));
    struct layer l = layer_open(&f);
    for (int k = 0; k < 3; k++) {
        char key[40];
        snprintf(key, sizeof key, "%s.score", orders[k].name);
        const float *reference = fixture_get(&f, key).f;
        snprintf(key, sizeof key, "%s.order", orders[k].name);
        const double *score = l.input.statistic[outlier_statistic(orders[k].score)];
        int32_t own[96];
        struct err e = {0};
        for (int j = 0; j < 96; j++)
            assert_true(fabs(orders[k].factor * score[j] / (double)reference[j] - 1) < 1e-6);
        assert_int_equal(activation_order(score, l.cols, own, &e), OK);
        assert_memory_equal(own, fixture_get(&f, key).data, sizeof own);
    }
    const float *h = fixture_get(&f, "H").f; /* 2 / samples X Xᵀ */
    double most = 0;
    for (int i = 0; i < 96 * 96; i++) most = fmax(most, fabs((double)h[i]));
    for (int i = 0; i < 96; i++)
        for (int j = i; j < 96; j++)
            assert_true(fabs(l.gram[i * 96 + j] - (double)h[i * 96 + j]) < 1e-6 * most);
    for (int k = 0; k < STATISTIC_N; k++) free(l.sums[k]);
    fixture_close(&f);
}

enum { ROWS = 70, COLS = 230, OUTLIERS = 30 };

/* h (COLS, COLS) = the damped Hessian. */
static void hessian(const struct layer *l, double damping, double *h)
{
    double mean = 0;
    for (int64_t i = 0; i < COLS; i++)
        for (int64_t j = 0; j < COLS; j++)
            h[i * COLS + j] = 2 * l->gram[i < j ? i * COLS + j : j * COLS + i];
    for (int64_t i = 0; i < COLS; i++) mean += h[i * COLS + i] / COLS;
    for (int64_t i = 0; i < COLS; i++) h[i * COLS + i] += damping * mean;
}

/* Whatever the groups and blocks: no other values of the outlier columns give a smaller error, that
 * is, the error's gradient for them is zero; the other columns are on grids of their groups in
 * ascending order of their inputs. At 8 bits only the outlier columns are others. */
static void test_outliers_take_up_the_error(void **state)
{
    (void)state;
    static const int64_t sizes[][2] = {{-1, 64}, {32, 128}, {96, 32}, {50, 7}, {7, 50}, {300, 16}};
    struct layer l = layer_make(ROWS, COLS, 500);
    double *h = malloc(COLS * COLS * sizeof *h);
    for (int k = 0; k < 12; k++) {
        struct quant_options o;
        struct quant_report r;
        struct err e = {0};
        int64_t *order;
        options_default(&quant_table, &o);
        o.group_size = sizes[k / 2][0];
        o.block_size = sizes[k / 2][1];
        o.scale_dtype = k % 2 ? SCALE_F32 : SCALE_F16_PACKED;
        o.outlier_columns = OUTLIERS;
        o.outlier_score = OUTLIER_SQUARES;
        float *q = quantize(&l, "gptq", 3, &o, &r);
        assert_int_equal(grid_order_outliers(&l.input, &o, COLS, &order, &e), OK);
        hessian(&l, r.damping, h);
        for (int64_t i = 0; i < ROWS; i++) {
            const int64_t group = o.group_size < 0 ? COLS : o.group_size;
            for (int64_t at = COLS - OUTLIERS; at < COLS && o.scale_dtype == SCALE_F32; at++) {
                double sum = 0, size = 0;
                for (int64_t j = 0; j < COLS; j++) {
                    const double by = (double)(l.w[i * COLS + j] - q[i * COLS + j]);
                    sum += by * h[j * COLS + order[at]];
                    size += fabs(by * h[j * COLS + order[at]]);
                }
                assert_true(fabs(sum) < 2e-5 * size);
            }
            for (int64_t a = 0; a < COLS - OUTLIERS; a += group) {
                float value[9];
                int n = 0;
                for (int64_t at = a; at < a + group && at < COLS - OUTLIERS; at++) {
                    int known = 0;
                    while (known < n && value[known] != q[i * COLS + order[at]]) known++;
                    if (known == n) value[n++] = q[i * COLS + order[at]];
                    assert_true(n <= 8);
                }
            }
        }
        o.outlier_bits = 8;
        float *eight = quantize(&l, "gptq", 3, &o, &r);
        for (int64_t i = 0; i < ROWS; i++) {
            float most = 0;
            for (int64_t at = COLS - OUTLIERS; at < COLS; at++)
                most = fmaxf(most, fabsf(q[i * COLS + order[at]]));
            for (int64_t at = 0; at < COLS; at++) {
                const float x = q[i * COLS + order[at]], scale = most / 127;
                const float y = at < COLS - OUTLIERS ? x : rintf(x / scale) * scale;
                assert_true(eight[i * COLS + order[at]] == y);
            }
        }
        free(order);
        free(q);
        free(eight);
    }
    free(h);
    layer_free(&l);
}

static void refused(const char *flag, const char *value, const char *text)
{
    struct quant_options o;
    struct err e = {0};
    const int64_t bits = 4;
    options_default(&quant_table, &o);
    o.outlier_columns = 8;
    option_set(&o, flag, value);
    assert_int_equal(quant_check("gptq", &o, &bits, 1, &e), ERR_USAGE);
    if (!strstr(e.text, text)) fail_msg("%s", e.text);
}

static void test_what_does_not_go_with_it(void **state)
{
    (void)state;
    struct layer l = layer_make(8, 16, 20);
    struct quant_options o;
    struct quant_grid_form form;
    struct err e = {0};
    int64_t *order;
    const char *last = "leave out codes, mixing, order and static_groups";
    refused("--order", "activation", last);
    refused("--static-groups", NULL, last);
    refused("--mixing", "hadamard", last);
    refused("--codes", "fp4_e2m1", last);
    options_default(&quant_table, &o);
    o.outlier_columns = 16;
    assert_int_equal(grid_order_outliers(&l.input, &o, 16, &order, &e), ERR_SHAPE);
    assert_string_equal(e.text, "outlier_columns: 16 of 16 columns");
    e = (struct err){0};
    assert_int_equal(quant_grid_form_of(&quant_gptq, &o, &form, &e), ERR_USAGE);
    assert_string_equal(e.text, "outlier_columns: packed formats have one width");
    layer_free(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_codes_of_the_references),
        cmocka_unit_test(test_scores_and_orders_of_the_references),
        cmocka_unit_test(test_outliers_take_up_the_error),
        cmocka_unit_test(test_what_does_not_go_with_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* codebook against an exhaustive search for the best weighted clusters. */
#include "coding/kmeans.h"
#include "layer.h"
#include "math/dtype.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

enum { POINTS = 12 };

static double run_cost(const struct kmeans_point *p, int a, int b)
{
    double w = 0, s = 0, cost = 0;
    for (int i = a; i <= b; i++) w += p[i].weight, s += p[i].weight * p[i].value;
    for (int i = a; i <= b; i++) cost += p[i].weight * pow(p[i].value - s / w, 2);
    return cost;
}

/* Least cost of the points from a on in at most so many runs. */
static double best_cost(const struct kmeans_point *p, int a, int n, int clusters)
{
    double least = clusters > 0 ? run_cost(p, a, n - 1) : INFINITY;
    for (int b = a; b < n - 1 && clusters > 1; b++)
        least = fmin(least, run_cost(p, a, b) + best_cost(p, b + 1, n, clusters - 1));
    return least;
}

/* For many draws, with equal values and with sensitivities far apart: as good as any division. */
static void clusters_are_optimal(void **state)
{
    (void)state;
    uint64_t seed = 7;
    struct kmeans *k;
    assert_int_equal(kmeans_open(POINTS, 8, &k, NULL), OK);
    for (int draw = 0; draw < 300; draw++) {
        struct kmeans_point p[POINTS];
        double centre[POINTS], cost = 0, value = 0;
        const int n = 1 + draw % POINTS, clusters = 1 + draw % 7;
        for (int i = 0; i < n; i++) {
            value += draw % 3 && i % 4 == 1 ? 0 : fabs((double)noise(&seed));
            p[i] = (struct kmeans_point){value, exp(4 * (double)noise(&seed)), i};
        }
        kmeans_line(k, p, n, clusters, centre);
        int distinct = 1;
        for (int i = 0; i < n; i++) {
            cost += p[i].weight * pow(p[i].value - centre[i], 2);
            distinct += i > 0 && centre[i] != centre[i - 1];
        }
        const double best = best_cost(p, 0, n, clusters);
        assert_true(distinct <= clusters);
        assert_true(fabs(cost - best) <= 1e-9 * (best + p[0].weight));
    }
    kmeans_free(k);
}

static double weighted_error(const struct layer *l, const float *q)
{
    double sum = 0;
    for (int64_t i = 0; i < l->rows * l->cols; i++) {
        const int64_t j = i % l->cols;
        sum += l->gram[j * l->cols + j] * pow((double)l->w[i] - (double)q[i], 2);
    }
    return sum;
}

/* Each row has at most 2^bits values; the error that counts is less than without sensitivities and
 * than on a grid for each row; the table's values are f16 numbers if asked for. */
static void each_row_has_its_codebook(void **state)
{
    (void)state;
    struct layer l = layer_make(20, 300, 400), plain = l;
    struct quant_options o = options_make(-1);
    struct quant_report r;
    double *ones;
    float *q[3];
    const struct quant_method *codebook = quant_find("codebook");
    assert_int_equal(mem_zero(&ones, l.cols, sizeof *ones, "ones", NULL), OK);
    for (int64_t j = 0; j < l.cols; j++) ones[j] = 1;
    plain.input.statistic[STATISTIC_SQUARES] = ones;
    assert_int_equal(layer_quantize(&l, quant_find("rtn"), 3, &o, &q[0], &r, NULL), OK);
    assert_int_equal(layer_quantize(&plain, codebook, 3, &o, &q[1], &r, NULL), OK);
    o.scale_dtype = SCALE_F16;
    assert_int_equal(layer_quantize(&l, codebook, 3, &o, &q[2], &r, NULL), OK);
    assert_true(weighted_error(&l, q[2]) < 0.8 * weighted_error(&l, q[1]));
    assert_true(weighted_error(&l, q[1]) < weighted_error(&l, q[0]));
    assert_float_equal(r.bits_per_weight, 3 + 8 * 16 / 300.0, 1e-12);
    for (int64_t i = 0; i < l.rows; i++) {
        float seen[8];
        int n = 0, k;
        for (int64_t j = 0; j < l.cols; j++) {
            const float v = q[2][i * l.cols + j];
            assert_true(dtype_round_f16(v) == v);
            for (k = 0; k < n && seen[k] != v; k++) continue;
            assert_true(k < 8);
            if (k == n) seen[n++] = v;
        }
    }
    for (int i = 0; i < 3; i++) free(q[i]);
    free(ones);
    layer_free(&l);
}

/* The statistic is the Gram matrix's diagonal; with bounds it is the same in any order. */
static void the_statistic_is_the_diagonal(void **state)
{
    (void)state;
    enum { COLS = 70, TOKENS = 90 };
    struct layer l = layer_make(1, COLS, TOKENS);
    float most[COLS] = {0};
    double bound[COLS], sums[2][COLS] = {{0}};
    for (int64_t j = 0; j < COLS; j++)
        assert_true(fabs(l.sums[STATISTIC_SQUARES][j] / l.gram[j * COLS + j] - 1) < 1e-5);
    gram_bound_raise(most, l.x, COLS, TOKENS);
    gram_bound_make(bound, most, COLS, TOKENS);
    for (int order = 0; order < 2; order++)
        for (int64_t t = 0; t < TOKENS; t++) {
            const int64_t at = order ? TOKENS - 1 - t : t, offset[] = {at, at + 1};
            const struct statistic_range r = {
                .x = l.x, .cols = COLS, .offset = offset, .n = 1, .bound = bound, .tokens = TOKENS};
            assert_int_equal(statistic_at(STATISTIC_SQUARES)->add(sums[order], &r, NULL), OK);
        }
    assert_memory_equal(sums[0], sums[1], sizeof sums[0]);
    for (int64_t j = 0; j < COLS; j++)
        assert_true(fabs(sums[0][j] / l.sums[STATISTIC_SQUARES][j] - 1) < 1e-9);
    layer_free(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(clusters_are_optimal),
                                       cmocka_unit_test(each_row_has_its_codebook),
                                       cmocka_unit_test(the_statistic_is_the_diagonal)};
    linalg_setup();
    return cmocka_run_group_tests(tests, NULL, NULL);
}

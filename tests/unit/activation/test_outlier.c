/* Outliers against definitions that are written out; of ties, padding, heads and numbers that are
 * not finite; by any threads and cut of the sequences. */
#include "activation/outlier.h"
#include <math.h>
#include <omp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

enum {
    SEQUENCES = 3,
    TOKENS = 40,
    HEADS = 2,
    COLUMNS = 27, /* no multiple of what is summed side by side */
    CHANNELS = HEADS * COLUMNS,
    PITCH = 80
};
static const int64_t offset[SEQUENCES + 1] = {0, 7, 8, TOKENS};

static float numbers[TOKENS * PITCH];

static void fill(void)
{
    srand(5);
    for (int i = 0; i < TOKENS * PITCH; i++) {
        const float u = (float)rand() / (float)RAND_MAX - 0.5f;
        numbers[i] = u * u * u * (i % PITCH == 33 ? 40 : i % PITCH % 3 ? 0.05f : 8);
        if (i % PITCH % 2) numbers[i] = -fabsf(numbers[i]); /* channels without positive numbers */
    }
}

/* Heads, 30 columns apart. */
static struct outlier_rows rows_of(enum outlier_grid grid)
{
    return (struct outlier_rows){numbers, PITCH, HEADS, 30, COLUMNS, grid};
}

static float at(int64_t t, int64_t j)
{
    return numbers[t * PITCH + j / COLUMNS * 30 + j % COLUMNS];
}

static struct outliers found(const struct outlier_rows *r, const int64_t *valid, int cut)
{
    struct outlier_sums sums[SEQUENCES] = {{0}};
    float channel[CHANNELS] = {0};
    struct err e = {0};
    int64_t *bin = calloc(OUTLIER_BINS, sizeof *bin);
    for (int i = 0; i < SEQUENCES; i += cut) {
        const int n = i + cut < SEQUENCES ? cut : SEQUENCES - i;
        assert_int_equal(
            outliers_add(r, n, offset + i, valid ? valid + i : NULL, sums + i, channel, bin, &e),
            OK);
    }
    const struct outliers o = outliers_of(sums, SEQUENCES, channel, CHANNELS, bin);
    free(bin);
    return o;
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void definitions(void **state)
{
    static double size[TOKENS * CHANNELS], most[CHANNELS];
    double mean = 0, square = 0, fourth = 0, largest = 0, all = 0, sum = 0, n = TOKENS * CHANNELS;
    int64_t channel = -1, token = -1, k = 0;
    (void)state;
    fill();
    for (int64_t t = 0; t < TOKENS; t++)
        for (int64_t j = 0; j < CHANNELS; j++) {
            const double x = size[t * CHANNELS + j] = fabsf(at(t, j));
            mean += at(t, j) / n;
            most[j] = fmax(most[j], x);
            if (x > largest) largest = x, channel = j, token = t;
        }
    for (int64_t t = 0; t < TOKENS; t++)
        for (int64_t j = 0; j < CHANNELS; j++) {
            square += pow(at(t, j) - mean, 2) / n;
            fourth += pow(at(t, j) - mean, 4) / n;
        }
    const struct outlier_rows r = rows_of(OUTLIER_TOKEN);
    const struct outliers o = found(&r, NULL, SEQUENCES);
    assert_true(fabs(o.kurtosis / (fourth / square / square) - 1) < 1e-12);
    assert_true(o.largest == largest && o.channel == channel && o.broken == 0);
    assert_int_equal(o.position, token - (token < 7 ? 0 : token < 8 ? 7 : 8));
    qsort(size, TOKENS * CHANNELS, sizeof *size, ascending);
    assert_true(fabs(o.largest_over_median * size[(TOKENS * CHANNELS - 1) / 2] / largest - 1) <
                4e-3);
    qsort(most, CHANNELS, sizeof *most, ascending);
    for (int j = 0; j < CHANNELS; j++) all += most[j];
    while (sum < 0.99 * all) sum += most[CHANNELS - 1 - k++];
    assert_true(o.channels == (double)k / CHANNELS && k < CHANNELS);
}

/* The error of a grid that is written out: of whole tokens, or heads. */
static double error_of(enum outlier_grid grid, int bits)
{
    double error = 0, square = 0;
    const int columns = grid == OUTLIER_TOKEN ? CHANNELS : COLUMNS;
    for (int64_t t = 0; t < TOKENS; t++)
        for (int64_t first = 0; first < CHANNELS; first += columns) {
            float low = grid == OUTLIER_VALUES ? INFINITY : 0, high = -low;
            for (int64_t j = first; j < first + columns; j++)
                low = fminf(low, at(t, j)), high = fmaxf(high, at(t, j));
            const bool even = grid == OUTLIER_TOKEN;
            const float step = even ? fmaxf(-low, high) / (float)((1 << (bits - 1)) - 1)
                                    : (high - low) / (float)((1 << bits) - 1);
            const float zero = even ? 0 : rintf(-low / step);
            for (int64_t j = first; j < first + columns; j++) {
                const float x = at(t, j), q = step * (rintf(x / step) + zero - zero);
                error += pow((double)q - x, 2);
                square += pow(x, 2);
            }
        }
    return sqrt(error / square);
}

static void rounding_errors(void **state)
{
    (void)state;
    fill();
    struct outlier_rows token = rows_of(OUTLIER_TOKEN);
    static float row[TOKENS * CHANNELS]; /* one head, as an input is */
    for (int64_t t = 0; t < TOKENS; t++)
        for (int64_t j = 0; j < CHANNELS; j++) row[t * CHANNELS + j] = at(t, j);
    token = (struct outlier_rows){row, CHANNELS, 1, 0, CHANNELS, OUTLIER_TOKEN};
    const struct outlier_rows keys = rows_of(OUTLIER_KEYS), values = rows_of(OUTLIER_VALUES);
    const struct outlier_rows *of[] = {&token, &keys, &values};
    for (int i = 0; i < 3; i++) {
        const struct outliers o = found(of[i], NULL, SEQUENCES);
        for (int k = 0; k < OUTLIER_WIDTHS; k++)
            assert_true(fabs(o.error[k] / error_of(of[i]->grid, k ? 8 : 4) - 1) < 1e-6);
    }
    const struct outlier_rows plain = rows_of(OUTLIER_PLAIN);
    assert_true(found(&plain, NULL, SEQUENCES).error[0] == 0);
}

static void same_by_threads_and_cuts(void **state)
{
    (void)state;
    fill();
    const struct outlier_rows r = rows_of(OUTLIER_KEYS);
    const int threads = omp_get_max_threads();
    const struct outliers whole = found(&r, NULL, SEQUENCES);
    for (int n = 1; n <= 5; n++) {
        omp_set_num_threads(n);
        for (int cut = 1; cut <= SEQUENCES; cut++) {
            const struct outliers o = found(&r, NULL, cut);
            assert_memory_equal(&o, &whole, sizeof o);
        }
    }
    omp_set_num_threads(threads);
}

/* The first of equal ones counts: by sequence, token, channel. */
static void ties_padding_and_nan(void **state)
{
    (void)state;
    fill();
    const struct outlier_rows r = rows_of(OUTLIER_TOKEN);
    numbers[10 * PITCH + 30 + 5] = numbers[10 * PITCH + 3] = -50;
    numbers[20 * PITCH + 2] = 50;
    struct outliers o = found(&r, NULL, SEQUENCES);
    assert_true(o.largest == 50 && o.channel == 3 && o.position == 2);
    const int64_t valid[SEQUENCES] = {7, 0, 2}; /* token 10 is padding */
    o = found(&r, valid, SEQUENCES);
    assert_true(o.largest < 50);
    numbers[9 * PITCH + 31] = NAN;
    numbers[39 * PITCH] = INFINITY;
    assert_int_equal(found(&r, valid, SEQUENCES).broken, 1);
    assert_int_equal(found(&r, NULL, 1).broken, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(definitions),
        cmocka_unit_test(rounding_errors),
        cmocka_unit_test(same_by_threads_and_cuts),
        cmocka_unit_test(ties_padding_and_nan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

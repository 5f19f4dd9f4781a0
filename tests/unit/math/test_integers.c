/* Products of codes against exact sums in integers of 64 bits, for random shapes, grids and codes
 * and the extremes of all three; against products of the dequantized numbers; weights that are on
 * no grid. Without oneDNN's instructions for bytes nothing is multiplied, and the test is
 * skipped. */
#include "math/products.h"
#include "util/mem.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static uint64_t seed = 1;
static int64_t draw(int64_t n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((seed >> 33) % (uint64_t)n);
}

static void *room(int64_t n, size_t size)
{
    void *p;
    assert_int_equal(mem_zero(&p, n, size, "test", NULL), OK);
    return p;
}

struct problem {
    int64_t m, n, k, piece, groups;
    struct integer_grids grids;
    double *grid;   // (n, groups, 2)
    int32_t *codes; // (n, k) of the weights
    float *w;       // (n, k)
    struct integer_inputs x;
};

enum extremes { RANDOM, LEAST, MOST, ALTERNATING, PATTERNS };

static int32_t code(enum extremes what, int64_t i, int32_t most)
{
    if (what == RANDOM) return (int32_t)draw(most + 1);
    return what == MOST || (what == ALTERNATING && i % 2) ? most : 0;
}

/* scales: other than 1. */
static struct problem make(int64_t m, int64_t n, int64_t k, int64_t bits, int64_t group,
                           enum extremes weights, enum extremes inputs, int zeros, bool scales)
{
    struct problem p = {.m = m, .n = n, .k = k, .piece = 1 + draw(n)};
    const int32_t most = (1 << bits) - 1;
    const int32_t own[] = {0, most, (most + 1) / 2, -1}, of_x[] = {0, 255, 128, -1};
    p.groups = (k + group - 1) / group;
    p.grid = room(n * p.groups * 2, sizeof *p.grid);
    p.codes = room(n * k, sizeof *p.codes);
    p.w = room(n * k, sizeof *p.w);
    p.x = (struct integer_inputs){room(m * k, 1), room(m, sizeof(float)), room(m, sizeof(int32_t))};
    p.grids = (struct integer_grids){bits, group, p.grid};
    for (int64_t i = 0; i < n * p.groups; i++) {
        p.grid[2 * i] = scales ? (double)(float)(1e-3 + (double)draw(1000) / 7e4) : 1;
        p.grid[2 * i + 1] = own[zeros % 4] < 0 ? (double)draw(most + 1) : own[zeros % 4];
    }
    for (int64_t i = 0; i < n * k; i++) {
        const double *grid = p.grid + (i / k * p.groups + i % k / group) * 2;
        p.codes[i] = code(weights, i, most);
        p.w[i] = (float)grid[0] * ((float)p.codes[i] - (float)grid[1]);
    }
    for (int64_t t = 0; t < m; t++) {
        p.x.scale[t] = scales ? 1e-3f + (float)draw(1000) / 3e4f : 1;
        p.x.zero[t] = of_x[zeros / 4] < 0 ? (int32_t)draw(256) : of_x[zeros / 4];
    }
    for (int64_t i = 0; i < m * k; i++) p.x.codes[i] = (uint8_t)code(inputs, i, 255);
    return p;
}

static void destroy(struct problem *p)
{
    free(p->grid), free(p->codes), free(p->w);
    free(p->x.codes), free(p->x.scale), free(p->x.zero);
}

static enum status prepare(const struct problem *p, struct product_weights **w, void **storage)
{
    struct err e = {0};
    const struct product_part all = {0, 1};
    assert_int_equal(product_weights_integers(&p->grids, p->n, p->k, p->piece, w, &e), OK);
    assert_int_equal(product_weights_terms_of(*w, p->w, all), 1);
    assert_int_equal(mem_alloc(storage, product_weights_size(*w, 1), 1, "codes", &e), OK);
    return product_weights_fill(*w, p->w, 1, *storage, all, &e);
}

/* y (m, n), rows n + 3 apart. */
static float *multiply(const struct problem *p)
{
    struct product_weights *w;
    void *storage;
    float *y = room(p->m * (p->n + 3), sizeof *y);
    for (int64_t i = 0; i < p->m * (p->n + 3); i++) y[i] = 42;
    assert_int_equal(prepare(p, &w, &storage), OK);
    for (int64_t r = 0; r < p->n; r += p->piece)
        product_integers(y + r, p->n + 3, &p->x, w, r / p->piece, p->m);
    for (int64_t t = 0; t < p->m; t++) assert_true(y[t * (p->n + 3) + p->n] == 42);
    product_weights_free(w);
    free(storage);
    return y;
}

static void check_exact(const struct problem *p, int64_t number)
{
    float *y = multiply(p);
    for (int64_t t = 0; t < p->m; t++)
        for (int64_t i = 0; i < p->n; i++) {
            float want = 0;
            for (int64_t g = 0; g < p->groups; g++) {
                const double *grid = p->grid + (i * p->groups + g) * 2;
                int64_t sum = 0;
                for (int64_t j = g * p->grids.group; j < p->k && j < (g + 1) * p->grids.group; j++)
                    sum += ((int64_t)p->x.codes[t * p->k + j] - p->x.zero[t]) *
                           ((int64_t)p->codes[i * p->k + j] - (int64_t)grid[1]);
                const float part = (float)sum * (p->x.scale[t] * (float)grid[0]);
                want = g == 0 ? part : want + part;
            }
            if (y[t * (p->n + 3) + i] != want)
                fail_msg("shape %d (%d, %d, %d, group %d), row %d, column %d: %.9g, not %.9g",
                         (int)number, (int)p->m, (int)p->n, (int)p->k, (int)p->grids.group, (int)t,
                         (int)i, (double)y[t * (p->n + 3) + i], (double)want);
        }
    free(y);
}

/* Sanitizers look at memory, not at numbers: each combination of the remainders below once. */
#ifdef __SANITIZE_ADDRESS__
enum { SHAPES = 2100 };
#else
enum { SHAPES = 10000 };
#endif

static void random_shapes(void **state)
{
    (void)state;
    if (!integers_run()) skip();
    for (int64_t i = 0; i < SHAPES; i++) {
        const int64_t k = i % 50 == 0 ? 1 : 1 + draw(i % 3 ? 40 : 300);
        const int64_t group = i % 2 ? k : 1 + draw(k), m = 1 + draw(i % 5 ? 9 : 140);
        struct problem p =
            make(m, 1 + draw(i % 7 ? 20 : 90), k, 2 + draw(7), group, (enum extremes)draw(PATTERNS),
                 (enum extremes)draw(PATTERNS), (int)draw(16), i % 4 == 0);
        check_exact(&p, i);
        destroy(&p);
    }
}

/* The longest sums that fit, of the largest products, with zeros at either end. */
static void longest_sums(void **state)
{
    (void)state;
    const int64_t longest = INT32_MAX / (255 * 255);
    assert_true(integers_fit(8, longest) && !integers_fit(8, longest + 1));
    assert_true(integers_fit(4, 43008) && !integers_fit(4, 31));
    if (!integers_run()) skip();
    for (int zeros = 0; zeros < 16; zeros++)
        for (int what = LEAST; what < PATTERNS; what++) {
            struct problem p = make(3, 5, longest, 8, longest, (enum extremes)what,
                                    zeros % 3 ? MOST : LEAST, zeros, false);
            check_exact(&p, zeros);
            destroy(&p);
        }
}

/* What is left between both ways of computing: the dequantized numbers, the scales' product and
 * each group's sum are rounded, never the sums. */
static void as_simulated(void **state)
{
    (void)state;
    const int64_t sizes[][4] = {{70, 96, 576, 576}, {130, 40, 1536, 128}, {5, 33, 577, 64}};
    if (!integers_run()) skip();
    for (int i = 0; i < 12; i++) {
        const int64_t *s = sizes[i % 3];
        struct problem p = make(s[0], s[1], s[2], i % 2 ? 8 : 4, s[3], RANDOM, RANDOM, 15, true);
        float *y = multiply(&p), *x = room(p.m * p.k, sizeof *x), *f32 = room(p.m * p.n, sizeof *x);
        double worst = 0, worst_f32 = 0;
        for (int64_t j = 0; j < p.m * p.k; j++)
            x[j] = p.x.scale[j / p.k] * ((float)p.x.codes[j] - (float)p.x.zero[j / p.k]);
        product_plain(f32, p.n, x, p.w, p.m, p.n, p.k);
        for (int64_t t = 0; t < p.m * p.n; t++) {
            double sum = 0, size = 0;
            for (int64_t j = 0; j < p.k; j++) {
                const double one = (double)x[t / p.n * p.k + j] * (double)p.w[t % p.n * p.k + j];
                sum += one;
                size += fabs(one);
            }
            const float own = y[t / p.n * (p.n + 3) + t % p.n];
            worst = fmax(worst, fabs((double)own - sum) / size);
            worst_f32 = fmax(worst_f32, fabs((double)own - (double)f32[t]) / size);
        }
        assert_true(worst < (5 + (double)p.groups) * 0x1p-24);
        assert_true(worst_f32 < (5 + (double)p.groups + (double)p.k) * 0x1p-24);
        destroy(&p);
        free(x), free(y), free(f32);
    }
}

/* A weight, or a zero, that is no code. */
static void not_on_the_grid(void **state)
{
    (void)state;
    if (!integers_run()) skip();
    for (int i = 0; i < 5; i++) {
        struct problem p = make(2, 40, 64, 4, 32, RANDOM, RANDOM, 15, true);
        struct product_weights *w;
        void *storage;
        if (i == 1) p.w[39 * 64 + 63] = nextafterf(p.w[39 * 64 + 63], 1);
        if (i == 2) p.w[5] = NAN;
        if (i == 3) p.grid[1] = 16;
        if (i == 4) p.grid[1] = 7.5;
        assert_int_equal(prepare(&p, &w, &storage), i == 0 ? OK : ERR_NUMERIC);
        product_weights_free(w);
        free(storage);
        destroy(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_shapes),
        cmocka_unit_test(longest_sums),
        cmocka_unit_test(as_simulated),
        cmocka_unit_test(not_on_the_grid),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Products with strips against sums in f64, of every form and of sizes around the blocks that they
 * are computed in; a strip's numbers do not depend on the other strips and rows. */
#include "math/isa.h"
#include "math/strip.h"
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { STRIPS = 3 };

#include "noise.h"

static const float *at(const struct strip_factor *f, int64_t i, int64_t j)
{
    return f->a + i * f->a_row + j * f->a_col;
}

/* y (rows, STRIP_COLS) of s, which was `before`. */
static void check(const struct strip *s, const struct strip_factor *f, const float *before)
{
    for (int64_t i = 0; i < s->rows; i++)
        for (int64_t c = 0; c < STRIP_COLS; c++) {
            double sum = f->add ? (double)before[i * f->ldy + c] : 0, size = fabs(sum);
            for (int64_t j = 0; j < f->k; j++) {
                const double term = (double)*at(f, i, j) * (double)s->b[j * f->ldb + c];
                sum += term;
                size += fabs(term);
            }
            const double miss = fabs((double)s->y[i * f->ldy + c] - sum);
            assert_true(miss <= (double)(f->k + 1) * (double)FLT_EPSILON * size);
        }
}

/* rows: of the last strip; the others have fewer. turned: a is stored by columns. */
static void try_shape(int64_t rows, int64_t k, bool turned, bool lower, bool add)
{
    const int64_t ldy = STRIPS * STRIP_COLS + 5, ldb = STRIP_COLS + 3;
    float *a = noise(rows * k, 1), *b = noise(STRIPS * k * ldb, 2), *y = noise(rows * ldy, 3),
          *before = noise(rows * ldy, 3), *alone = noise(rows * ldy, 3);
    struct strip_factor f = {.a = a,
                             .a_row = turned ? 1 : k,
                             .a_col = turned ? rows : 1,
                             .k = k,
                             .cols = STRIP_COLS,
                             .ldy = ldy,
                             .ldb = ldb,
                             .lower = lower,
                             .add = add};
    for (int64_t i = 0; lower && i < rows; i++)
        for (int64_t j = i + 1; j < k; j++) a[i * f.a_row + j * f.a_col] = 0;
    struct strip s[STRIPS];
    for (int i = 0; i < STRIPS; i++)
        s[i] = (struct strip){y + i * STRIP_COLS, b + i * k * ldb, rows * (i + 1) / STRIPS};
    strip_products(s, STRIPS, &f, STRIP_DEPTH);
    for (int i = 0; i < STRIPS; i++) {
        check(&s[i], &f, before + i * STRIP_COLS);
        for (int64_t r = s[i].rows; r < rows; r++)
            assert_memory_equal(s[i].y + r * ldy, before + i * STRIP_COLS + r * ldy,
                                STRIP_COLS * sizeof *y);
    }
    const struct strip one = {alone, s[1].b, rows};
    strip_products(&one, 1, &f, STRIP_DEPTH);
    for (int64_t r = 0; !add && r < s[1].rows; r++)
        assert_memory_equal(alone + r * ldy, s[1].y + r * ldy, STRIP_COLS * sizeof *y);
    for (int64_t r = 0; r < rows; r++)
        assert_memory_equal(y + r * ldy + STRIPS * STRIP_COLS,
                            before + r * ldy + STRIPS * STRIP_COLS, 5 * sizeof *y);
    free(a), free(b), free(y), free(before), free(alone);
}

static void any_shape_and_instruction_set(void **state)
{
    (void)state;
    const int64_t rows[] = {1, 5, 6, 13, 31}, k[] = {0, 1, 128, 511, 512, 1030};
    const enum isa before = isa_active();
    for (int isa = 0; isa < ISA_N; isa++) {
        if (!isa_runs((enum isa)isa)) continue;
        isa_use((enum isa)isa);
        for (int i = 0; i < 5; i++)
            for (int j = 0; j < 6; j++)
                for (int form = 0; form < 8; form++)
                    try_shape(rows[i], k[j], form & 1, form & 2, form & 4);
    }
    isa_use(before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(any_shape_and_instruction_set)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Ranks that share a visit: the distribution of sequences, shared memory on a node, and weights
 * that are prepared in parts. NP: 1 2 3 4 */
#include "engine/group.h"
#include "engine/shared_products.h"
#include "math/bf16.h"
#include "math/linalg.h"
#include "model/model_internal.h"
#include "util/mem.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "prepared.h"

static struct visit_group group;

static struct sequences sequences_of(const int64_t *lengths, int64_t n)
{
    struct sequences s;
    int64_t tokens = 0;
    for (int64_t i = 0; i < n; i++) tokens += lengths[i];
    assert_int_equal(sequences_init(&s, n, tokens, 0, NULL), OK);
    for (int64_t i = 0; i < n; i++) s.offset[i + 1] = s.offset[i] + lengths[i];
    for (int64_t i = 0; i < tokens; i++) s.ids[i] = (int32_t)i;
    return s;
}

/* Every sequence is assigned once, in order; no rank has more than its share plus one sequence. */
static void each_sequence_is_assigned_once(void **state)
{
    (void)state;
    const int64_t lengths[] = {5, 0, 17, 1, 1, 40, 3, 3, 9, 12, 2};
    for (int64_t n = 0; n <= 11; n++) {
        struct sequences all = sequences_of(lengths, n), kept = {0};
        const struct sequences *own;
        int64_t first;
        assert_int_equal(group_sequences(&group, &all, &kept, &own, &first, NULL), OK);
        int64_t tokens = own->offset[own->n];
        assert_true(tokens <= all.offset[n] / group.size + 41);
        for (int64_t i = 0; i < own->n; i++)
            assert_int_equal(own->offset[i + 1] - own->offset[i], lengths[first + i]);
        for (int64_t i = 0; i < tokens; i++) assert_int_equal(own->ids[i], all.offset[first] + i);
        double numbers[11];
        for (int64_t i = 0; i < n; i++) numbers[i] = -1;
        for (int64_t i = 0; i < own->n; i++) numbers[first + i] = (double)(first + i);
        assert_int_equal(group_gather(&group, &all, NULL, 1, numbers, NULL), OK);
        for (int64_t i = 0; i < n; i++) assert_true(numbers[i] == (double)i);
        sequences_free(&kept);
        sequences_free(&all);
    }
}

static void all_ranks_see_all_rows(void **state)
{
    (void)state;
    struct group_memory m;
    enum { ROWS = 300, COLS = 7 };
    assert_int_equal(group_memory_open(&group, ROWS * COLS, "test", &m, NULL), OK);
    for (int round = 0; round < 3; round++) {
        int64_t first, end;
        team_own_rows(&group.team, ROWS, &first, &end);
        for (int64_t i = first * COLS; i < end * COLS; i++) m.at[i] = (float)(i + round);
        assert_int_equal(group_rows(&group, &m, m.at, ROWS, COLS, NULL), OK);
        for (int64_t i = 0; i < ROWS * COLS; i++) assert_true(m.at[i] == (float)(i + round));
        group_memory_sync(&group, &m);
    }
    group_memory_close(&m);
}

/* --- failures --- */

/* --- products --- */

enum { TOKENS = 5, COLS = 70 };

/* Weights (rows, COLS) that take two terms or, if exact, one. */
static void fill_weights(float *w, int64_t rows, bool exact)
{
    for (int64_t i = 0; i < rows * COLS; i++)
        w[i] = (float)(i * 7 % 251 - 125) * (exact ? 1.0F : 1.0F + 0x1p-9F);
}

/* y (TOKENS, rows) = the product with all pieces. */
static void multiply(const struct product_weights *w, int64_t rows, float *y)
{
    float x[TOKENS * COLS];
    uint16_t terms[2 * TOKENS * COLS];
    const int64_t piece = linear_piece(rows);
    for (int i = 0; i < TOKENS * COLS; i++) x[i] = (float)(i % 31) / 37;
    bf16_split(terms, (int64_t)TOKENS * COLS, 2, x, (int64_t)TOKENS * COLS);
    for (int64_t r = 0; r < rows; r += piece)
        product_nt(PRODUCTS_BF16X2, y + r, rows, terms, (int64_t)TOKENS * COLS, w, r / piece,
                   TOKENS);
}

/* Each rank has only the pieces that it prepares; the products are those of all. */
static void check_products(const struct model *m, int64_t rows, bool exact,
                           struct shared_products *p)
{
    struct product_weights *alone;
    float *w, *part, *y, *expected;
    const int64_t piece = linear_piece(rows);
    assert_int_equal(mem_alloc(&w, rows * COLS, sizeof *w, "weights", NULL), OK);
    assert_int_equal(mem_zero(&part, rows * COLS, sizeof *part, "weights", NULL), OK);
    assert_int_equal(mem_alloc(&y, TOKENS * rows, sizeof *y, "y", NULL), OK);
    assert_int_equal(mem_alloc(&expected, TOKENS * rows, sizeof *y, "y", NULL), OK);
    fill_weights(w, rows, exact);
    for (int64_t r = 0; r < rows; r++)
        if (r / piece % group.node_size == group.node_rank)
            memcpy(part + r * COLS, w + r * COLS, COLS * sizeof *w);
    assert_int_equal(prepare(m, w, rows, COLS, &alone, NULL), OK);
    assert_int_equal(shared_products_make(&group, m, part, rows, COLS, p, NULL), OK);
    assert_true(p->memory.shared == (group.node_size > 1));
    assert_int_equal(product_weights_terms(p->w), exact ? 1 : 2);
    multiply(alone, rows, expected);
    multiply(p->w, rows, y);
    assert_memory_equal(y, expected, (size_t)(TOKENS * rows) * sizeof *y);
    product_weights_free(alone);
    free(w);
    free(part);
    free(y);
    free(expected);
}

static void prepared_products_are_shared(void **state)
{
    (void)state;
    struct checkpoint *c;
    struct model *m;
    struct shared_products p = {0};
    assert_int_equal(checkpoint_open(FIXTURES "/models/tiny_llama", &c, NULL), OK);
    assert_int_equal(model_open(c, &m, NULL), OK);
    assert_int_equal(shared_products_make(&group, m, NULL, 3, COLS, &p, NULL), OK);
    assert_null(p.w); /* in f32 there is nothing to prepare */
    model_set_products(m, PRODUCTS_BF16X2);
    check_products(m, 700, true, &p);
    const int64_t floats = p.floats;
    check_products(m, 100, true, &p);
    assert_true(p.floats == floats);
    check_products(m, 700, false, &p);
    assert_true(p.floats > floats);
    shared_products_close(&p);
    model_close(m);
    checkpoint_close(c);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    linalg_setup();
    if (group_open(MPI_COMM_WORLD, &group, NULL) != OK) return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_sequence_is_assigned_once),
        cmocka_unit_test(all_ranks_see_all_rows),
        cmocka_unit_test(prepared_products_are_shared),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    group_close(&group);
    MPI_Finalize();
    return failed;
}

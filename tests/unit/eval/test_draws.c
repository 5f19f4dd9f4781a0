/* Draws of calibration sequences: which sequences they may take, and that they depend on seed and
 * number alone. Each sequence is told by its first token. */
#include "eval/draws.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { LENGTH = 40, POOL = 60, SIZE = 8, DRAWS = 7 };

/* Sequences first to first + n - 1, no two of which share a token. */
static struct sequences make(int64_t first, int64_t n)
{
    struct sequences s;
    assert_int_equal(sequences_init(&s, n, n * LENGTH, 0, NULL), OK);
    for (int64_t t = 0; t < n * LENGTH; t++) s.ids[t] = (int32_t)(first * LENGTH + t);
    for (int64_t i = 0; i <= n; i++) s.offset[i] = i * LENGTH;
    return s;
}

static void draw(int64_t pool_n, int64_t avoid_first, int64_t avoid_n, uint64_t seed, int64_t n,
                 struct sequences *out)
{
    struct sequences pool = make(0, pool_n), avoid = make(avoid_first, avoid_n);
    assert_int_equal(draws_make(&pool, SIZE, &avoid, seed, n, out, NULL), OK);
    sequences_free(&pool);
    sequences_free(&avoid);
}

static void release(struct sequences *draws, int64_t n)
{
    for (int64_t i = 0; i < n; i++) sequences_free(&draws[i]);
}

static int64_t index_of(const struct sequences *s, int64_t i)
{
    return s->ids[s->offset[i]] / LENGTH;
}

/* 60 sequences, of which 8 are the usual ones and 5 are evaluated on: 47 are left, enough for five
 * draws. */
static void disjoint_as_long_as_they_last(void **state)
{
    (void)state;
    struct sequences draws[DRAWS];
    int times[POOL] = {0};
    draw(POOL, 20, 5, 1, DRAWS, draws);
    for (int64_t k = 0; k < DRAWS; k++) {
        assert_int_equal(draws[k].n, SIZE);
        for (int64_t i = 0; i < SIZE; i++) {
            const int64_t index = index_of(&draws[k], i);
            assert_true(i == 0 || index > index_of(&draws[k], i - 1));
            assert_true(index < 20 || index >= 25);
            if (k < 5) assert_true(index >= SIZE && ++times[index] == 1);
        }
    }
    release(draws, DRAWS);
}

static bool same(const struct sequences *a, const struct sequences *b)
{
    for (int64_t i = 0; i < SIZE; i++)
        if (index_of(a, i) != index_of(b, i)) return false;
    return true;
}

static void seed_and_number_alone(void **state)
{
    (void)state;
    struct sequences all[DRAWS], few[2], other[2];
    draw(POOL, 20, 5, 1, DRAWS, all);
    draw(POOL, 20, 5, 1, 2, few);
    draw(POOL, 20, 5, 2, 2, other);
    for (int64_t k = 0; k < 2; k++)
        assert_true(same(&all[k], &few[k]) && !same(&all[k], &other[k]));
    for (int64_t k = 0; k < DRAWS; k++)
        for (int64_t j = 0; j < k; j++) assert_false(same(&all[k], &all[j]));
    release(all, DRAWS);
    release(few, 2);
    release(other, 2);
}

/* One span in common is enough to leave a sequence out; fewer tokens are not. */
static void a_span_in_common(void **state)
{
    (void)state;
    struct sequences pool = make(0, SIZE + 2), avoid = make(1000, 1), out[1];
    for (int64_t t = 0; t < 32; t++) avoid.ids[t + 4] = pool.ids[9 * LENGTH + t];
    assert_int_equal(draws_make(&pool, SIZE, &avoid, 0, 1, out, NULL), OK);
    for (int64_t i = 0; i < SIZE; i++) assert_int_not_equal(index_of(&out[0], i), 9);
    sequences_free(&out[0]);
    struct err e = {0};
    for (int64_t t = 0; t < 32; t++) avoid.ids[t + 4] = pool.ids[8 * LENGTH + t];
    avoid.ids[0] = avoid.ids[1] = avoid.ids[2] = avoid.ids[3] = -5;
    assert_int_equal(draws_make(&pool, SIZE + 1, &avoid, 0, 1, out, &e), ERR_USAGE);
    assert_non_null(strstr(e.text, "has 9 sequences, and a draw takes 9"));
    sequences_free(&pool);
    sequences_free(&avoid);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(disjoint_as_long_as_they_last),
        cmocka_unit_test(seed_and_number_alone),
        cmocka_unit_test(a_span_in_common),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

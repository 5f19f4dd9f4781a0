/* The block-cyclic index arithmetic, against counting, and at sizes that no 32-bit number holds. */
#include "math/cyclic.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static void check(struct cyclic c)
{
    int64_t *seen = calloc((size_t)c.procs, sizeof *seen);
    for (int64_t i = 0; i < c.n; i++) {
        int64_t proc = cyclic_owner(&c, i);
        assert_true(proc >= 0 && proc < c.procs);
        for (int64_t p = 0; p < c.procs; p++) assert_int_equal(cyclic_count(&c, i, p), seen[p]);
        assert_int_equal(cyclic_local(&c, i), seen[proc]);
        assert_int_equal(cyclic_global(&c, seen[proc], proc), i);
        seen[proc]++;
    }
    for (int64_t p = 0; p < c.procs; p++) assert_int_equal(cyclic_count(&c, c.n, p), seen[p]);
    free(seen);
}

static void each_index_has_one_place(void **state)
{
    (void)state;
    for (int64_t n = 0; n < 40; n++)
        for (int64_t block = 1; block < 9; block++)
            for (int64_t procs = 1; procs < 6; procs++) check((struct cyclic){n, block, procs});
    check((struct cyclic){27648, 128, 6});
    check((struct cyclic){43008, 64, 7});
}

/* A matrix of order 43008 (Apertus 70B) distributed over a few ranks: all parts together are the
 * whole, and no product overflows. */
static void large_orders_do_not_overflow(void **state)
{
    (void)state;
    const int64_t orders[] = {27648, 43008, 1000000007};
    for (int o = 0; o < 3; o++)
        for (int64_t rows = 1; rows < 5; rows++)
            for (int64_t cols = 1; cols < 9; cols++) {
                const struct cyclic r = {orders[o], 128, rows}, c = {orders[o], 128, cols};
                __int128 total = 0;
                for (int64_t i = 0; i < rows; i++)
                    for (int64_t j = 0; j < cols; j++)
                        total += (__int128)cyclic_count(&r, r.n, i) * cyclic_count(&c, c.n, j);
                assert_true(total == (__int128)orders[o] * orders[o]);
                int64_t last = orders[o] - 1, proc = cyclic_owner(&r, last);
                assert_int_equal(cyclic_global(&r, cyclic_local(&r, last), proc), last);
                assert_int_equal(cyclic_local(&r, last) + 1, cyclic_count(&r, r.n, proc));
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_index_has_one_place),
        cmocka_unit_test(large_orders_do_not_overflow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

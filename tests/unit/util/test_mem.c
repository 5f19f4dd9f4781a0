/* Memory that is kept from call to call. */
#include "util/mem.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static void kept_memory_grows(void **state)
{
    (void)state;
    struct mem_kept k = {0};
    char *first = mem_keep(&k, 100);
    assert_non_null(first);
    assert_int_equal((uintptr_t)first % 64, 0);
    first[99] = 7;
    assert_ptr_equal(mem_keep(&k, 60), first); /* and what is in it stays */
    assert_ptr_equal(mem_keep(&k, 100), first);
    assert_int_equal(first[99], 7);
    char *larger = mem_keep(&k, 1 << 20);
    assert_non_null(larger);
    larger[(1 << 20) - 1] = 7;
    assert_int_equal(k.bytes, 1 << 20);
    free(k.at);
}

/* After a failure nothing is kept, and less can be had. */
static void kept_memory_out_of_memory(void **state)
{
    (void)state;
    struct mem_kept k = {0};
    assert_non_null(mem_keep(&k, 0));
    assert_null(mem_keep(&k, INT64_MAX));
    assert_null(k.at);
    assert_int_equal(k.bytes, 0);
    assert_non_null(mem_keep(&k, 10));
    free(k.at);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kept_memory_grows),
        cmocka_unit_test(kept_memory_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

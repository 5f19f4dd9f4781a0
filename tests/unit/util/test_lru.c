/* The cache between visits: order of use, and which items are dropped. */
#include "util/lru.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { THINGS = 5 };
static struct lru things[THINGS];
static char keys[THINGS][2];
static int64_t dropped;

/* Records in base 10 which items were dropped, the first one in front. */
static void drop(void *item)
{
    dropped = 10 * dropped + ((struct lru *)item - things) + 1;
}

static struct lru *all(void)
{
    struct lru *list = NULL;
    for (int i = 0; i < THINGS; i++) {
        keys[i][0] = (char)('a' + i);
        things[i] = (struct lru){.key = keys[i], .drop = drop};
        lru_add(&list, &things[i]);
    }
    dropped = 0;
    return list;
}

static void the_last_added_stay(void **state)
{
    (void)state;
    struct lru *list = all();
    lru_trim(&list, THINGS);
    assert_int_equal(dropped, 0);
    lru_trim(&list, 3);
    assert_int_equal(dropped, 21);
    assert_null(lru_find(&list, "a"));
    lru_trim(&list, 0);
    assert_int_equal(dropped, 21543);
    assert_null(list);
    lru_trim(&list, 2);
    assert_null(lru_find(&list, "e"));
}

static void the_last_found_stay(void **state)
{
    (void)state;
    struct lru *list = all();
    const char *asked[] = {"a", "a", "c", "x", "e"};
    for (int i = 0; i < 5; i++) {
        const struct lru *k = lru_find(&list, asked[i]);
        if (asked[i][0] == 'x')
            assert_null(k);
        else
            assert_true(k == &things[asked[i][0] - 'a'] && k == list);
    }
    lru_trim(&list, 0);
    assert_int_equal(dropped, 53142);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_last_added_stay),
                                       cmocka_unit_test(the_last_found_stay)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

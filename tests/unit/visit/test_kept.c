/* What is kept between visits: the order of use, and who is dropped. */
#include "visit/visit_internal.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

enum { THINGS = 5 };
static struct kept things[THINGS];
static char keys[THINGS][2];
static int64_t dropped;

/* Counts in base 10 which were dropped, the first one in front. */
static void drop(void *kept)
{
    dropped = 10 * dropped + ((struct kept *)kept - things) + 1;
}

static struct kept *all(void)
{
    struct kept *list = NULL;
    for (int i = 0; i < THINGS; i++) {
        keys[i][0] = (char)('a' + i);
        things[i] = (struct kept){.key = keys[i]};
        kept_add(&list, &things[i]);
    }
    dropped = 0;
    return list;
}

static void the_last_added_stay(void **state)
{
    (void)state;
    struct kept *list = all();
    kept_forget(&list, THINGS, drop);
    assert_int_equal(dropped, 0);
    kept_forget(&list, 3, drop);
    assert_int_equal(dropped, 21);
    assert_null(kept_find(&list, "a"));
    kept_forget(&list, 0, drop);
    assert_int_equal(dropped, 21543);
    assert_null(list);
    kept_forget(&list, 2, drop);
    assert_null(kept_find(&list, "e"));
}

static void the_last_found_stay(void **state)
{
    (void)state;
    struct kept *list = all();
    const char *asked[] = {"a", "a", "c", "x", "e"};
    for (int i = 0; i < 5; i++) {
        const struct kept *k = kept_find(&list, asked[i]);
        if (asked[i][0] == 'x')
            assert_null(k);
        else
            assert_true(k == &things[asked[i][0] - 'a'] && k == list);
    }
    kept_forget(&list, 0, drop);
    assert_int_equal(dropped, 53142);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_last_added_stay),
                                       cmocka_unit_test(the_last_found_stay)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

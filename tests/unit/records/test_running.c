/* The visits that a run computes, as others read it. */
#include "records/running.h"
#include "scratch.h"
#include <unistd.h>

static struct err error;

static struct lock_holder self(void)
{
    struct lock_holder h = {.held = true, .pid = getpid()};
    gethostname(h.host, sizeof h.host - 1);
    return h;
}

/* Only what the process that holds the lock has written counts. */
static void of_the_holder(void **state)
{
    (void)state;
    char journal[512];
    struct lock_holder h = self();
    snprintf(journal, sizeof journal, "%s", scratch_put("x.journal", "", 0));
    assert_null(running_read(journal, &h));
    json_t *visits = json_pack("[{s:s, s:i}]", "name", "m step1", "rank", 3);
    assert_int_equal(running_write(journal, visits, &error), OK);
    json_t *read = running_read(journal, &h);
    assert_true(json_equal(read, visits));
    json_decref(read);
    h.pid++;
    assert_null(running_read(journal, &h));
    h = self();
    h.host[0] ^= 1;
    assert_null(running_read(journal, &h));
    h = self();
    h.held = false;
    assert_null(running_read(journal, &h));
    h = self();
    scratch_put("x.journal.running", "{\"host\":", 8);
    assert_null(running_read(journal, &h));
    running_remove(journal);
    assert_int_equal(access(scratch_path("x.journal.running"), F_OK), -1);
    json_decref(visits);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(of_the_holder)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

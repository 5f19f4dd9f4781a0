/* Stagers that share a ledger: users that have not begun, space, checkpoints larger than those
 * before them. The command that fetches writes files of given sizes; a file `go` of its checkpoint
 * lets it go on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "scratch.h"
#include "stage/ledger.h"
#include "stage/stager.h"
#include "stage/tree.h"
#include "util/clock.h"
#include "util/fsx.h"
#include "util/mem.h"
#include <time.h>

enum { SIZE = 100000 };

static struct err error;
static char base[512]; /* of the test that runs */

static void begin(const char *name)
{
    char command[1024];
    snprintf(base, sizeof base, "%s/%s", scratch_dir(), name);
    snprintf(command, sizeof command, "mkdir -p %s/store", base);
    assert_int_equal(system(command), 0);
}

static char *in(const char *name)
{
    static char paths[8][1024];
    static int next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof *paths, "%s/%s", base, name);
    return path;
}

static char *checkpoint(int i)
{
    char name[32];
    snprintf(name, sizeof name, "store/c%d", i);
    return in(name);
}

static bool is_there(int i)
{
    return fsx_is_dir(checkpoint(i));
}

/* Fetches checkpoint i, of so many bytes in two halves; `waits`: before the second until the file
 * go-I is there, after it until end-I is. */
static json_t *item(int i, int64_t bytes, bool waits)
{
    char name[32], command[2048], partial[1024];
    snprintf(name, sizeof name, "m c%d", i);
    snprintf(partial, sizeof partial, "%s/store/.c%d.partial", base, i);
    snprintf(
        command, sizeof command,
        "echo x >>count-%d; head -c %lld /dev/zero >$0/a; wait_for() { while %s && [ ! -e $1-%d ]; "
        "do sleep 0.02; done; }; wait_for go; head -c %lld /dev/zero >$0/b; wait_for end; "
        "echo {} >$0/config.json",
        i, (long long)bytes / 2, waits ? "true" : "false", i, (long long)bytes / 2);
    char whole[4096];
    snprintf(whole, sizeof whole, "cd %s && %s", base, command);
    return json_pack("{s:s, s:s, s:s, s:b, s:[s,s,s,s]}", "name", name, "model", "m", "path",
                     checkpoint(i), "keep", 0, "command", "sh", "-c", whole, partial);
}

static void release(const char *name)
{
    FILE *f = fopen(in(name), "w");
    assert_non_null(f);
    fclose(f);
}

/* A job of one visit for each item. */
static json_t *job(const char *user, double space, bool uses, json_t *items)
{
    json_t *visits = json_array();
    for (size_t i = 0; i < json_array_size(items); i++)
        json_array_append_new(visits, json_pack("[i]", (int)i));
    return json_pack("{s:s, s:s, s:I, s:i, s:f, s:b, s:b, s:o, s:o}", "folder", in("ledger"),
                     "user", user, "space", (json_int_t)(space * SIZE), "tries", 2, "pause", 0.01,
                     "commands", 1, "uses", uses, "items", items, "visits", visits);
}

static struct stager *open_job(json_t *j)
{
    struct stager *s = NULL;
    assert_int_equal(stager_open(j, &s, &error), OK);
    json_decref(j);
    assert_int_equal(stager_step(s, &error), OK);
    return s;
}

static void step(struct stager *s)
{
    const struct timespec pause = {.tv_nsec = 5000000};
    if (s && stager_step(s, &error) != OK) fail_msg("%s", error.text);
    nanosleep(&pause, NULL);
}

/* Steps until the checkpoint is there, or gone; the bytes on disk never exceed the space by more
 * than `beyond` checkpoints. */
static void until(struct stager *a, struct stager *b, int i, bool there, double most)
{
    const double end = clock_seconds() + 120;
    while (is_there(i) != there) {
        step(a);
        step(b);
        assert_true(tree_bytes(in("store")) <= (int64_t)(most * SIZE));
        if (clock_seconds() > end)
            fail_msg("checkpoint %d is never %s", i, there ? "there" : "gone");
    }
}

static bool knows_user(const char *user)
{
    json_t *state = NULL;
    assert_int_equal(ledger_read(in("ledger"), &state, &error), OK);
    const bool found = json_object_get(json_object_get(state, "users"), user) != NULL;
    json_decref(state);
    return found;
}

static int64_t count_fetches(int i)
{
    char name[32];
    snprintf(name, sizeof name, "count-%d", i);
    FILE *f = fopen(in(name), "r");
    int64_t n = 0;
    for (int c; f && (c = getc(f)) != EOF;) n += c == '\n';
    if (f) fclose(f);
    return n;
}

static json_t *others(const char *user, const char *journal, int needs)
{
    return json_pack("[{s:s, s:s, s:[s]}]", "user", user, "journal", in(journal), "needs",
                     checkpoint(needs));
}

/* What a part that has not begun needs stays when the first one has ended, and is not fetched
 * again. */
static void test_unstarted(void **state)
{
    (void)state;
    begin("unstarted");
    json_t *first =
        job("part-1-of-2", 0, true, json_pack("[o,o]", item(0, SIZE, false), item(1, SIZE, false)));
    json_object_set_new(first, "others", others("part-2-of-2", "second.journal", 1));
    struct stager *a = open_job(first);
    until(a, NULL, 1, true, 3);
    assert_true(knows_user("part-2-of-2"));
    stager_end_visit(a, 0);
    stager_end_visit(a, 1);
    until(a, NULL, 0, false, 3);
    stager_close(a);
    assert_true(is_there(1));
    struct stager *b =
        open_job(job("part-2-of-2", 0, true, json_pack("[o]", item(1, SIZE, false))));
    stager_end_visit(b, 0);
    until(b, NULL, 1, false, 3);
    stager_close(b);
    assert_int_equal(count_fetches(1), 1);
    assert_false(knows_user("part-2-of-2"));
}

/* Those that have a journal have begun, and are not registered by others; those of another cut are
 * forgotten. */
static void test_begun(void **state)
{
    (void)state;
    begin("begun");
    release("second.journal");
    json_t *first = job("part-1-of-2", 0, true, json_pack("[o]", item(0, SIZE, false)));
    json_object_set_new(first, "others", others("part-2-of-2", "second.journal", 0));
    struct stager *a = open_job(first);
    assert_false(knows_user("part-2-of-2"));
    stager_close(a);
    json_t *again = job("part-1-of-2", 0, true, json_pack("[o]", item(0, SIZE, false)));
    json_object_set_new(again, "others", others("part-2-of-2", "none.journal", 0));
    a = open_job(again);
    assert_true(knows_user("part-2-of-2"));
    stager_close(a);
    a = open_job(job("part-1-of-3", 0, true, json_pack("[o]", item(0, SIZE, false))));
    assert_false(knows_user("part-2-of-2"));
    stager_close(a);
}

/* A user that can do nothing else gets the space of one that has not begun. */
static void test_gives_way(void **state)
{
    (void)state;
    begin("gives_way");
    json_t *first = job("part-1-of-2", 1.5, true,
                        json_pack("[o,o]", item(0, SIZE, false), item(1, SIZE, false)));
    json_object_set_new(first, "others", others("part-2-of-2", "second.journal", 0));
    struct stager *a = open_job(first);
    until(a, NULL, 0, true, 1.5);
    stager_end_visit(a, 0);
    until(a, NULL, 1, true, 1.5);
    assert_false(is_there(0));
    stager_close(a);
}

/* A checkpoint that is larger than the one before it waits until there is space for all of it. */
static void test_larger(void **state)
{
    (void)state;
    begin("larger");
    struct stager *a = open_job(
        job("all", 2.2, true, json_pack("[o,o]", item(0, SIZE, false), item(1, 2 * SIZE, true))));
    until(a, NULL, 0, true, 2.2);
    const double end = clock_seconds() + 120;
    while (count_fetches(1) == 0 && clock_seconds() < end) step(a);
    release("go-1"); /* its second half is too much */
    while (!stager_count(a).full && clock_seconds() < end) step(a);
    release("end-1");
    for (int i = 0; i < 100; i++) step(a);
    assert_false(is_there(1));
    assert_int_equal(count_fetches(1), 1);
    stager_end_visit(a, 0);
    until(a, NULL, 1, true, 3.2);
    assert_int_equal(stager_count(a).failed, 0);
    stager_close(a);
}

/* One that never fits is given up, and the others go on. */
static void test_too_large(void **state)
{
    (void)state;
    begin("too_large");
    struct stager *a = open_job(
        job("all", 1.5, true, json_pack("[o,o]", item(0, SIZE, false), item(1, 4 * SIZE, true))));
    until(a, NULL, 0, true, 1.5);
    stager_end_visit(a, 0);
    const double end = clock_seconds() + 120;
    while (stager_count(a).failed == 0 && clock_seconds() < end) step(a);
    assert_int_equal(stager_count(a).failed, 1);
    assert_false(is_there(1));
    stager_close(a);
}

/* Who only fetches does not end while something that a user needs was removed. */
static void test_fetched_again(void **state)
{
    (void)state;
    begin("again");
    struct stager *user =
        open_job(job("part-1-of-1", 0, true, json_pack("[o]", item(0, SIZE, false))));
    until(user, NULL, 0, true, 2);
    stager_close(user); /* killed: it still needs it */
    struct stager *ahead =
        open_job(job("stage-all", 0, false, json_pack("[o]", item(0, SIZE, false))));
    assert_true(stager_count(ahead).all);
    assert_int_equal(tree_remove(checkpoint(0), &error), OK);
    until(ahead, NULL, 0, true, 2);
    assert_int_equal(count_fetches(0), 2);
    stager_close(ahead);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unstarted), cmocka_unit_test(test_begun),
        cmocka_unit_test(test_gives_way), cmocka_unit_test(test_larger),
        cmocka_unit_test(test_too_large), cmocka_unit_test(test_fetched_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

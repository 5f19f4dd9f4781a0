/* Stagers that share a ledger: folders of others, folders that cannot be written, full disks,
 * names, checkpoints larger than those before them. The command that fetches writes files of given
 * sizes; a file `go-I` lets that of checkpoint I go on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "scratch.h"
#include "stage/claims.h"
#include "stage/ledger.h"
#include "stage/stager.h"
#include "stage/tree.h"
#include "util/clock.h"
#include "util/fsx.h"
#include "util/mem.h"
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

enum { SIZE = 100000 };

static struct err error;
static char base[512];              /* of the test that runs */
static struct stager_counts counts; /* of the last step */
static double patience;             /* seconds that a command may bring nothing */
static int64_t expected;            /* bytes of a checkpoint */
static int64_t beyond;              /* bytes that its commands write at once beyond the space */

static void shell(const char *format, ...)
{
    char command[2048];
    va_list more;
    va_start(more, format);
    vsnprintf(command, sizeof command, format, more);
    va_end(more);
    if (system(command) != 0) fail_msg("%s", command);
}

static void begin(const char *name)
{
    error = (struct err){0};
    beyond = 1000;
    patience = 1000;
    expected = SIZE;
    snprintf(base, sizeof base, "%s/%s", scratch_dir(), name);
    shell("mkdir -p %s/store", base);
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
    return fsx_is_dir(checkpoint(i)) && fsx_is_file(in("ledger/state.json"));
}

/* A checkpoint without tensors. */
#define WHOLE "printf \"\\2\\0\\0\\0\\0\\0\\0\\0{}\" >$0/model.safetensors; echo {} >$0/config.json"

/* Fetches checkpoint i, of so many bytes in two halves; `waits`: before the second until the file
 * go-I is there. end: how the command ends. */
static json_t *item(int i, int64_t bytes, bool waits, const char *end)
{
    char whole[4096], name[32], partial[32], *log;
    json_t *json;
    assert_int_equal(ledger_file(in("ledger"), checkpoint(i), "log", &log, &error), OK);
    snprintf(name, sizeof name, "m c%d", i);
    snprintf(partial, sizeof partial, "store/.c%d.partial", i);
    snprintf(
        whole, sizeof whole,
        "cd %s && echo x >>count-%d; head -c %lld /dev/zero >$0/a; while %s && [ ! -e go-%d ]; "
        "do sleep 0.02; done; head -c %lld /dev/zero >$0/b; %s",
        base, i, (long long)bytes / 2, waits ? "true" : "false", i, (long long)bytes / 2, end);
    json = json_pack("{s:s, s:s, s:s, s:b, s:[s,s,s,s], s:s, s:s}", "name", name, "model", "m",
                     "path", checkpoint(i), "keep", 0, "command", "sh", "-c", whole, in(partial),
                     "partial", in(partial), "log", log);
    free(log);
    return json;
}

/* What a visit reads: checkpoint i. */
static json_t *one(int i)
{
    return json_pack("{s:s}", checkpoint(i), "m");
}

/* A job of one visit for each item. */
static json_t *job(const char *user, double space, bool uses, json_t *list)
{
    json_t *visits = json_array(), *items = json_object(), *next;
    size_t i;
    json_array_foreach(list, i, next) {
        json_object_set(items, json_text(next, "path", ""), next);
        char name[8];
        snprintf(name, sizeof name, "%d", (int)i);
        json_array_append_new(visits, json_pack("{s:s, s:{s:s}}", "visit", name, "reads",
                                                json_text(next, "path", ""), "m"));
    }
    json_decref(list);
    return json_pack("{s:s, s:s, s:s, s:I, s:i, s:f, s:f, s:b, s:b, s:{s:I}, s:o, s:o}", "folder",
                     in("ledger"), "user", user, "life", user, "space",
                     (json_int_t)(space > 0 ? space * SIZE : 1e18), "tries", 2, "pause", 0.01,
                     "patience", patience, "commands", 1, "uses", uses, "models", "m",
                     (json_int_t)expected, "items", items, "visits", visits);
}

static struct stager *open_job(json_t *j)
{
    struct stager *s = NULL;
    if (stager_open(j, &s, &error) != OK) fail_msg("%s", error.text);
    if (stager_step(s, &counts, &error) != OK) fail_msg("%s", error.text);
    return s;
}

static void step(struct stager *s)
{
    const struct timespec pause = {.tv_nsec = 50000000};
    if (stager_step(s, &counts, &error) != OK) fail_msg("%s", error.text);
    nanosleep(&pause, NULL);
}

/* Asks for a visit that reads these checkpoints, until it has them or they failed. */
static enum claim read_them(struct stager *s, const char *user, double space, int visit,
                            json_t *reads, char message[512])
{
    char name[8];
    snprintf(name, sizeof name, "%d", visit);
    json_t *stage = json_pack(
        "{s:s, s:s, s:s, s:I, s:s, s:o}", "folder", in("ledger"), "user", user, "life", user,
        "space", (json_int_t)(space > 0 ? space * SIZE : 1e18), "visit", name, "reads", reads);
    const double end = clock_seconds() + 120;
    enum claim state = CLAIM_WAITS;
    while (state == CLAIM_WAITS && clock_seconds() < end) {
        step(s);
        state = stager_ask(stage, true, message);
        assert_true(space == 0 || tree_bytes(in("store")) <= (int64_t)(space * SIZE) + beyond);
    }
    json_decref(stage);
    return state;
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

/* --- tests --- */

/* What is fetched has a file that says so, and is removed after its visit, also a folder that
 * nobody may write to. */
static void what_is_fetched_is_removed_after_its_visit(void **state)
{
    char message[512];
    (void)state;
    begin("fetched");
    struct stager *s = open_job(job("all", 2.5, true,
                                    json_pack("[o,o]", item(0, SIZE, false, WHOLE "; chmod 555 $0"),
                                              item(1, SIZE, false, WHOLE))));
    assert_int_equal(read_them(s, "all", 2.5, 0, one(0), message), CLAIM_LEASED);
    shell("test -f %s/.staged-by-qtraj", checkpoint(0));
    stager_end_visit(s, 0);
    assert_int_equal(read_them(s, "all", 2.5, 1, one(1), message), CLAIM_LEASED);
    stager_end_visit(s, 1);
    stager_close(s);
    shell("test -z \"$(ls -A %s/store)\"", base);
    assert_int_equal(count_fetches(0) + count_fetches(1), 2);
}

/* A whole checkpoint of another tool is used; half of one, also an empty folder, fails with a
 * message; none is fetched again or removed. One that comes while it is fetched stays, too. */
static void folders_of_others_stay(void **state)
{
    char message[512];
    (void)state;
    begin("own");
    json_t *items = json_pack("[o,o,o,o]", item(0, SIZE, false, WHOLE), item(1, SIZE, false, WHOLE),
                              item(2, SIZE, false, WHOLE), item(3, SIZE, true, WHOLE));
    shell("mkdir %s && sh -c '%s' %s", checkpoint(0), WHOLE, checkpoint(0));
    shell("cp -r %s %s && rm %s/model.safetensors && mkdir %s", checkpoint(0), checkpoint(1),
          checkpoint(1), checkpoint(2));
    struct stager *s = open_job(job("all", 1.5, true, items));
    assert_int_equal(read_them(s, "all", 1.5, 0, one(0), message), CLAIM_LEASED);
    for (int i = 1; i < 3; i++) {
        assert_int_equal(read_them(s, "all", 1.5, i, one(i), message), CLAIM_NEVER);
        assert_non_null(strstr(message, "not fetched by `stage`, and no whole checkpoint"));
        assert_non_null(strstr(message, checkpoint(i)));
    }
    const double end = clock_seconds() + 120;
    while (count_fetches(3) == 0 && clock_seconds() < end) step(s);
    shell("cp -r %s %s && touch %s", checkpoint(0), checkpoint(3), in("go-3"));
    assert_int_equal(read_them(s, "all", 1.5, 3, one(3), message), CLAIM_LEASED);
    for (int i = 0; i < 4; i++) stager_end_visit(s, i);
    stager_close(s);
    for (int i = 0; i < 4; i++) assert_true(fsx_is_dir(checkpoint(i)));
    for (int i = 0; i < 3; i++) assert_int_equal(count_fetches(i), 0);
}

/* Steps until the stager fails. */
static enum status fails(struct stager *s)
{
    const double end = clock_seconds() + 60;
    enum status st = OK;
    const struct timespec pause = {.tv_nsec = 5000000};
    while (st == OK && clock_seconds() < end) {
        st = stager_step(s, NULL, &error);
        nanosleep(&pause, NULL);
    }
    stager_close(s);
    return st;
}

/* As a user who may not write there: root may. */
static void unwritable(void)
{
    begin("unwritable");
    json_t *items = json_pack("[o]", item(0, SIZE, false, WHOLE));
    struct stager *s = NULL;
    shell("mkdir -p %s/ledger && chmod 777 %s %s/ledger && chmod 755 %s && chmod 555 %s/store",
          base, base, base, scratch_dir(), base);
    if (geteuid() == 0 && seteuid(65534) != 0) _exit(2);
    if (stager_open(job("all", 0, true, items), &s, &error) != OK) _exit(3);
    const enum status st = fails(s);
    fprintf(stderr, "%s\n", error.text);
    _exit(st == ERR_IO && strstr(error.text, "cannot make this folder: Permission denied") ? 0 : 4);
}

static void a_folder_that_cannot_be_written_is_refused(void **state)
{
    int status;
    (void)state;
    (void)scratch_dir();
    const pid_t pid = fork();
    if (pid == 0) unwritable();
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

/* The size of checkpoints is known, and the disk has not so much. */
static void test_full_disk(void **state)
{
    (void)state;
    begin("full");
    struct stager *s = NULL;
    expected = 100000000000000000;
    json_t *items = json_pack("[o]", item(0, SIZE, false, WHOLE));
    assert_int_equal(stager_open(job("all", 0, true, items), &s, &error), OK);
    assert_int_equal(fails(s), ERR_FULL);
    assert_non_null(strstr(error.text, "free on its disk and 100000000.0 GB are to be fetched"));
    assert_int_equal(count_fetches(0), 0);
}

/* A command that leaves half of a checkpoint, or none, has failed, after its tries. */
static void half_a_checkpoint_is_a_failure(void **state)
{
    char message[512];
    (void)state;
    begin("failures");
    struct stager *s =
        open_job(job("all", 0, true,
                     json_pack("[o,o]", item(0, SIZE, false, "echo {} >$0/config.json"),
                               item(1, SIZE, false, "exit 7"))));
    assert_int_equal(read_them(s, "all", 0, 0, one(0), message), CLAIM_NEVER);
    assert_non_null(strstr(message, "m c0: the command left no whole"));
    assert_int_equal(read_them(s, "all", 0, 1, one(1), message), CLAIM_NEVER);
    assert_non_null(strstr(message, "ended with exit code 7 (try 2 of 2)"));
    assert_int_equal(count_fetches(0) + count_fetches(1), 4);
    assert_int_equal(counts.failed, 2);
    stager_close(s);
}

/* A command that hangs is ended. */
static void a_command_that_hangs_is_ended(void **state)
{
    char message[512];
    (void)state;
    begin("hangs");
    patience = 0.5;
    struct stager *s = open_job(job("all", 0, true, json_pack("[o]", item(0, SIZE, true, WHOLE))));
    assert_int_equal(read_them(s, "all", 0, 0, one(0), message), CLAIM_NEVER);
    assert_non_null(strstr(message, "brought no byte for too long"));
    assert_int_equal(count_fetches(0), 2);
    assert_false(fsx_is_dir(in("store/.c0.partial")));
    stager_close(s);
}

/* Models and checkpoints of any two names have folders and logs of their own. */
static void any_two_names_have_files_of_their_own(void **state)
{
    static const char *const names[] = {"x y", "x_y", "x/y", "x", "x%20y", "X y", "z/x"};
    enum { N = sizeof names / sizeof *names };
    char *users[N], *logs[N];
    (void)state;
    for (int i = 0; i < N; i++) {
        assert_int_equal(ledger_file("l", names[i], "user", &users[i], &error), OK);
        assert_int_equal(ledger_file("l", names[i], "log", &logs[i], &error), OK);
        for (int k = 0; k < i; k++) {
            assert_string_not_equal(users[i], users[k]);
            assert_string_not_equal(logs[i], logs[k]);
        }
    }
    for (int i = 0; i < N; i++) free(users[i]);
    for (int i = 0; i < N; i++) free(logs[i]);
}

/* A checkpoint that is larger than the one before it waits until there is space for all of it. */
static void a_larger_one_waits_for_space(void **state)
{
    char message[512];
    (void)state;
    begin("larger");
    beyond += SIZE;
    struct stager *s = open_job(
        job("all", 2.2, true,
            json_pack("[o,o]", item(0, SIZE, false, WHOLE), item(1, 2 * SIZE, true, WHOLE))));
    assert_int_equal(read_them(s, "all", 2.2, 0, one(0), message), CLAIM_LEASED);
    const double end = clock_seconds() + 120;
    while (count_fetches(1) == 0 && clock_seconds() < end) step(s);
    shell("touch %s", in("go-1")); /* its second half is too much */
    while (!counts.full && clock_seconds() < end) step(s);
    for (int i = 0; i < 100; i++) step(s);
    assert_false(is_there(1));
    stager_end_visit(s, 0);
    assert_int_equal(read_them(s, "all", 2.2, 1, one(1), message), CLAIM_LEASED);
    assert_int_equal(counts.failed, 0);
    stager_close(s);
}

/* One that never fits is given up, with a message. */
static void one_that_never_fits_is_given_up(void **state)
{
    char message[512];
    (void)state;
    begin("too_large");
    beyond += SIZE;
    struct stager *s = open_job(
        job("all", 1.5, true,
            json_pack("[o,o]", item(0, SIZE, false, WHOLE), item(1, 4 * SIZE, true, WHOLE))));
    assert_int_equal(read_them(s, "all", 1.5, 0, one(0), message), CLAIM_LEASED);
    stager_end_visit(s, 0);
    assert_int_equal(read_them(s, "all", 1.5, 1, one(1), message), CLAIM_NEVER);
    assert_non_null(strstr(message, "what its visit reads takes more than run.stage_space"));
    assert_false(is_there(1));
    stager_close(s);
}

/* Who only fetches does not end while something that a user needs was removed; and a user that is
 * killed while its command runs ends that, and leaves what it has fetched to the next. */
static void a_killed_user_leaves_what_it_fetched(void **state)
{
    (void)state;
    begin("killed");
    const double end = clock_seconds() + 120;
    const pid_t pid = fork();
    if (pid == 0) {
        struct stager *s =
            open_job(job("all", 0, true, json_pack("[o]", item(0, SIZE, true, WHOLE))));
        for (;;) step(s);
    }
    while (!fsx_is_file(in("store/.c0.partial/a")) && clock_seconds() < end) usleep(10000);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    shell("touch %s", in("go-0"));
    struct stager *ahead =
        open_job(job("stage-all", 0, false, json_pack("[o]", item(0, SIZE, false, WHOLE))));
    while (counts.left > 0 && clock_seconds() < end) step(ahead);
    assert_true(is_there(0));
    assert_int_equal(tree_remove(checkpoint(0), &error), OK);
    for (int i = 0; i < 60; i++) step(ahead);
    while (counts.left > 0 && clock_seconds() < end) step(ahead);
    assert_true(is_there(0));
    assert_int_equal(count_fetches(0), 3);
    stager_close(ahead);
}

/* The command of a process that was killed heeds no SIGTERM and writes on: nobody gets its space
 * before it has ended. */
static void a_command_that_lives_on_keeps_its_space(void **state)
{
    char message[512], end[2048], *log;
    (void)state;
    begin("outlived");
    assert_int_equal(ledger_file(in("ledger"), checkpoint(0), "log", &log, &error), OK);
    snprintf(end, sizeof end, "flock -n %s true || touch %s; %s", log, in("both"), WHOLE);
    free(log);
    const pid_t pid = fork();
    if (pid == 0) {
        json_t *stubborn = item(0, SIZE, true, WHOLE);
        json_array_insert_new(json_object_get(stubborn, "command"), 0, json_string("sh"));
        json_array_insert_new(json_object_get(stubborn, "command"), 1, json_string("-c"));
        json_array_insert_new(json_object_get(stubborn, "command"), 2,
                              json_string("trap '' TERM; exec \"$0\" \"$@\""));
        struct stager *s = open_job(job("first", 1.4, true, json_pack("[o]", stubborn)));
        for (;;) step(s);
    }
    const double limit = clock_seconds() + 120;
    while (!fsx_is_file(in("store/.c0.partial/a")) && clock_seconds() < limit) usleep(10000);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    struct stager *s =
        open_job(job("second", 1.4, true, json_pack("[o]", item(1, SIZE, false, end))));
    assert_int_equal(read_them(s, "second", 1.4, 0, one(1), message), CLAIM_LEASED);
    assert_false(fsx_is_file(in("both")));
    assert_int_equal(count_fetches(1), 1);
    stager_end_visit(s, 0);
    stager_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_fetched_is_removed_after_its_visit),
        cmocka_unit_test(folders_of_others_stay),
        cmocka_unit_test(a_folder_that_cannot_be_written_is_refused),
        cmocka_unit_test(test_full_disk),
        cmocka_unit_test(half_a_checkpoint_is_a_failure),
        cmocka_unit_test(a_command_that_hangs_is_ended),
        cmocka_unit_test(any_two_names_have_files_of_their_own),
        cmocka_unit_test(a_larger_one_waits_for_space),
        cmocka_unit_test(one_that_never_fits_is_given_up),
        cmocka_unit_test(a_killed_user_leaves_what_it_fetched),
        cmocka_unit_test(a_command_that_lives_on_keeps_its_space),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Temporary names: nothing is left after an error, a signal, or by processes that are gone. */
#include "../scratch.h"
#include "util/fsx.h"
#include "util/process.h"
#include "util/temporary.h"
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

static int64_t left(const char *name)
{
    char pattern[64];
    snprintf(pattern, sizeof pattern, "%s.tmp.*", name);
    return files_named(scratch_dir(), pattern);
}

static void touch(const char *path)
{
    assert_int_equal(fsx_write_file(path, "x", 1, NULL), OK);
}

/* A name of its own each time; what has it is gone at the end, unless it was renamed. */
static void names_are_unique_and_go_at_the_end(void **state)
{
    (void)state;
    char *a, *b;
    const char *path = scratch_path("ends");
    assert_int_equal(temporary_begin(path, &a, NULL), OK);
    assert_int_equal(temporary_begin(path, &b, NULL), OK);
    assert_string_not_equal(a, b);
    touch(a);
    assert_int_equal(mkdir(b, 0777), 0);
    char inside[600];
    snprintf(inside, sizeof inside, "%s/file", b);
    touch(inside);
    assert_int_equal(left("ends"), 2);
    temporary_end(b);
    assert_int_equal(left("ends"), 1);
    assert_int_equal(rename(a, path), 0);
    temporary_end(a);
    assert_int_equal(left("ends"), 0);
    assert_true(fsx_is_file(path));
}

/* A child that makes files and a folder and waits; says on `ready` that it has. */
static void make_and_wait(int ready)
{
    char *name = NULL, inside[600];
    temporary_catch_signals();
    for (int i = 0; i < 5; i++) {
        if (temporary_begin(scratch_path("signal"), &name, NULL) != OK) _exit(1);
        touch(name);
        if (i == 1) temporary_end(name); /* its entry is used again */
    }
    if (temporary_begin(scratch_path("signal"), &name, NULL) != OK) _exit(1);
    if (mkdir(name, 0777) != 0) _exit(1);
    for (int i = 0; i < 200; i++) {
        snprintf(inside, sizeof inside, "%s/a-file-with-a-name-%d", name, i);
        touch(inside);
    }
    if (write(ready, "x", 1) != 1) _exit(1);
    for (;;) pause();
}

static pid_t child(void)
{
    char x;
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    const pid_t pid = fork();
    if (pid == 0) make_and_wait(ready[1]);
    assert_true(pid > 0);
    assert_int_equal(read(ready[0], &x, 1), 1);
    close(ready[0]);
    close(ready[1]);
    return pid;
}

static void signals_remove_what_is_left(void **state)
{
    (void)state;
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    for (size_t i = 0; i < 3; i++) {
        int status;
        const pid_t pid = child();
        assert_int_equal(left("signal"), 5);
        assert_int_equal(kill(pid, numbers[i]), 0);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == numbers[i]);
        assert_int_equal(left("signal"), 0);
    }
}

/* The next writer removes what a killed process left, and nothing of a living one. */
static void of_the_dead(void **state)
{
    (void)state;
    char *name;
    const pid_t alive = child(), dead = child();
    assert_int_equal(kill(dead, SIGKILL), 0);
    assert_int_equal(waitpid(dead, NULL, 0), dead);
    assert_int_equal(left("signal"), 10);
    touch(scratch_path("signal.tmp.another-host.4194303.0123abcd"));
    touch(scratch_path("signal.tmp.4194303")); /* as earlier versions wrote them */
    touch(
        scratch_path("signal.tmp.another-host.4194303.0123abcd.tmp.another-host.4194303.0123abcd"));
    touch(scratch_path("signal.tmp.another-host.4194303.0123abcd.tmp.4194303"));
    touch(scratch_path("signal.tmp.mine"));
    assert_int_equal(temporary_begin(scratch_path("signal"), &name, NULL), OK);
    assert_int_equal(left("signal"), 8);
    temporary_end(name);
    temporary_remove_left(scratch_path("signal"), TEMPORARY_ALL);
    assert_int_equal(left("signal"), 1);
    assert_true(fsx_is_file(scratch_path("signal.tmp.mine")));
    assert_int_equal(kill(alive, SIGKILL), 0);
    assert_int_equal(waitpid(alive, NULL, 0), alive);
}

/* A killed process left a file, and another has its number since: that one began at another time.
 */
static void of_a_reused_number(void **state)
{
    (void)state;
    char host[25] = "", path[256], *name;
    gethostname(host, sizeof host);
    host[24] = '\0';
    const long pid = (long)getpid(), start = (long)process_start(pid);
    for (int same = 0; same < 2; same++) {
        snprintf(path, sizeof path, "reused.tmp.%s.%ld-%ld.0123abcd", host, pid, start + 1 - same);
        touch(scratch_path(path));
    }
    assert_int_equal(left("reused"), 2);
    assert_int_equal(temporary_begin(scratch_path("reused"), &name, NULL), OK);
    assert_int_equal(left("reused"), 1);
    assert_true(fsx_is_file(scratch_path(path)));
    temporary_end(name);
    temporary_remove_left(scratch_path("reused"), TEMPORARY_ALL);
    assert_int_equal(left("reused"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_unique_and_go_at_the_end),
        cmocka_unit_test(signals_remove_what_is_left),
        cmocka_unit_test(of_the_dead),
        cmocka_unit_test(of_a_reused_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

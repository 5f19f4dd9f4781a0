/* How long ranks may take to meet, and what `qtraj launch` knows of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "run/arrivals.h"
#include "run/startup.h"
#include "util/clock.h"
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void patience_is_not_the_time_to_meet(void **state)
{
    (void)state;
    setenv("QTRAJ_PATIENCE", "5", 1);
    assert_true(startup_limit(10) > 120);
    setenv("QTRAJ_MEET", "7", 1);
    assert_true(startup_limit(10) == 7);
    unsetenv("QTRAJ_PATIENCE");
    unsetenv("QTRAJ_MEET");
}

/* A process that is the rank of a run, on a host of another name where the system allows it. */
static pid_t begin_rank(const char *rank, bool meets)
{
    const pid_t pid = fork();
    if (pid != 0) return pid;
    setenv("OMPI_COMM_WORLD_RANK", rank, 1);
    if (unshare(CLONE_NEWUTS) == 0 && sethostname("elsewhere", 9) != 0) _exit(1);
    startup_begin(true, 4);
    if (meets) startup_end();
    for (;;) pause();
}

static void end_rank(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

/* Rank 0 is stopped after all have met: wherever it is, it is silent from then on, and not before.
 */
static void a_stopped_rank_is_silent(void **state)
{
    struct arrivals *a;
    struct arrivals_view v;
    (void)state;
    assert_int_equal(arrivals_open(1, true, &a, NULL), OK);
    const pid_t rank = begin_rank("0", true);
    while (!(v = arrivals_look(a)).met) clock_sleep(0.01);
    for (const double met = v.run; v.run < met + 4 || v.silent > 3; v = arrivals_look(a))
        clock_sleep(0.05);
    kill(rank, SIGSTOP);
    while ((v = arrivals_look(a)).silent < 6) clock_sleep(0.05);
    kill(rank, SIGCONT);
    while ((v = arrivals_look(a)).silent > 3) clock_sleep(0.05);
    end_rank(rank);
    while (!(v = arrivals_look(a)).gone) clock_sleep(0.01);
    arrivals_close(a);
}

static void who_has_not_met_is_named(void **state)
{
    char text[300];
    struct arrivals *a;
    (void)state;
    assert_int_equal(arrivals_open(4, true, &a, NULL), OK);
    const pid_t runs = begin_rank("0", false), stops = begin_rank("3", false);
    for (bool all = false; !all; clock_sleep(0.01)) {
        arrivals_look(a);
        arrivals_describe(a, text, sizeof text);
        all = strstr(text, "rank 1-2 has not come");
    }
    const pid_t one = begin_rank("1", false), two = begin_rank("2", false);
    while (strstr(text, "has not come")) {
        clock_sleep(0.01);
        arrivals_look(a);
        arrivals_describe(a, text, sizeof text);
    }
    kill(stops, SIGSTOP);
    while (!strstr(text, "rank 3 is silent")) {
        clock_sleep(0.05);
        arrivals_look(a);
        arrivals_describe(a, text, sizeof text);
    }
    assert_false(arrivals_look(a).met);
    const pid_t all[] = {runs, stops, one, two};
    for (int i = 0; i < 4; i++) end_rank(all[i]);
    arrivals_close(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patience_is_not_the_time_to_meet),
        cmocka_unit_test(a_stopped_rank_is_silent),
        cmocka_unit_test(who_has_not_met_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

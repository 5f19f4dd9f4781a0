#include "cli/launched.h"
#include "cli/cli.h"
#include "util/clock.h"
#include "util/log.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { NOT_STARTED = 127, NO_VERDICT = -1 };

/* Seconds that mpirun gets: to end when the run has ended or was asked to, or has broken off; then
 * after SIGTERM. */
static const double linger = 10, broken_off = 1, after_term = 5;

struct child {
    pid_t pid;
    double asked; /* clock_seconds of the first signal to stop, or of the verdict; 0: none */
    double termed;
    double patience; /* seconds after `asked` */
};

static int read_verdict(const char *path)
{
    int code = NO_VERDICT;
    FILE *f = fopen(path, "r");
    if (!f) return NO_VERDICT;
    if (fscanf(f, "%d", &code) != 1) code = NO_VERDICT;
    fclose(f);
    return code;
}

/* In a process group of its own, so that Ctrl-C on the terminal reaches only its parent; with
 * nothing to read, as a process in the background may not read from the terminal. */
static void become(char *const *argv, const sigset_t *mask)
{
    int null = open("/dev/null", O_RDONLY);
    setpgid(0, 0);
    if (null >= 0) dup2(null, STDIN_FILENO);
    sigprocmask(SIG_SETMASK, mask, NULL);
    execvp(argv[0], argv);
    log_error("%s cannot be started: %s", argv[0], strerror(errno));
    _exit(NOT_STARTED);
}

/* Signals reach the ranks of a run through mpirun only. */
static void pass_on(struct child *c, int signal, struct launched *out)
{
    if (signal == SIGCHLD || signal <= 0) return;
    if (signal == SIGUSR1) {
        kill(c->pid, SIGUSR1);
        return;
    }
    kill(c->pid, SIGUSR2);
    out->stopped = true;
    if (c->asked <= 0) c->asked = clock_seconds();
}

/* An mpirun that does not end by itself. */
static void urge(struct child *c)
{
    const double now = clock_seconds();
    if (c->termed > 0) {
        if (now - c->termed > after_term) kill(-c->pid, SIGKILL);
        return;
    }
    if (c->asked <= 0 || now - c->asked < c->patience) return;
    if (c->patience >= linger) log_warn("mpirun does not end; it is terminated");
    kill(c->pid, SIGTERM);
    c->termed = now;
}

static int code_of(int status)
{
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static void attend(struct child *c, const sigset_t *signals, const char *verdict,
                   struct launched *out)
{
    const struct timespec often = {.tv_nsec = 200000000};
    int status;
    for (;;) {
        pass_on(c, sigtimedwait(signals, NULL, &often), out);
        if (waitpid(c->pid, &status, WNOHANG) == c->pid) break;
        const int code = read_verdict(verdict);
        if (c->asked <= 0 && code != NO_VERDICT) c->asked = clock_seconds();
        c->patience = code == CLI_AGAIN ? broken_off : linger;
        urge(c);
    }
    out->code = code_of(status);
    out->verdict = read_verdict(verdict);
    out->later = out->verdict == CLI_LATER;
    if (out->later) out->verdict = EXIT_STOPPED;
}

enum status launched_run(char *const *argv, const char *verdict, struct launched *out,
                         struct err *e)
{
    static const int all[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGCHLD};
    sigset_t signals, before;
    struct child c = {0};
    sigemptyset(&signals);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) sigaddset(&signals, all[i]);
    sigprocmask(SIG_BLOCK, &signals, &before);
    *out = (struct launched){.verdict = NO_VERDICT};
    c.pid = fork();
    if (c.pid == 0) become(argv, &before);
    if (c.pid > 0) attend(&c, &signals, verdict, out);
    sigprocmask(SIG_SETMASK, &before, NULL);
    NEED(c.pid > 0, ERR_IO, "no process for mpirun: %s", strerror(errno));
    return OK;
}

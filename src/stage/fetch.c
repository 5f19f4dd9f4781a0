#include "stage/fetch.h"
#include "util/clock.h"
#include "util/fsx.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { NOT_STARTED = 127 };

/* In a process group of its own, which can be ended as a whole, and which signals for the run do
 * not reach; it does not outlive this process. */
static void become(char *const *argv, int log, pid_t parent)
{
    sigset_t none;
    const int null = open("/dev/null", O_RDONLY);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) _exit(NOT_STARTED);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    static const int usual[] = {SIGPIPE, SIGXFSZ, SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2};
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++) signal(usual[i], SIG_DFL);
    if (null >= 0) dup2(null, STDIN_FILENO);
    dup2(log, STDOUT_FILENO);
    dup2(log, STDERR_FILENO);
    execvp(argv[0], argv);
    dprintf(STDERR_FILENO, "%s: cannot be started: %s\n", argv[0], strerror(errno));
    _exit(NOT_STARTED);
}

static void write_heading(int log, char *const *argv)
{
    char utc[21];
    clock_utc(utc);
    dprintf(log, "# %s:", utc);
    for (; *argv; argv++) dprintf(log, " %s", *argv);
    dprintf(log, "\n");
}

/* flock on the log stays with the command, which has it as its output: it is let go only when the
 * command has ended, whatever becomes of this process. */
enum status fetch_start(struct fetch *f, char *const *argv, const char *log, struct err *e)
{
    const int fd = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    const pid_t self = getpid();
    f->pid = 0;
    NEED(fd >= 0, fsx_errno_status(errno), "%s: %s", log, strerror(errno));
    if (flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
        close(fd);
        return OK;
    }
    write_heading(fd, argv);
    const pid_t pid = fork();
    if (pid == 0) become(argv, fd, self);
    close(fd);
    NEED(pid > 0, ERR_IO, "no process for %s: %s", argv[0], strerror(errno));
    setpgid(pid, pid);
    *f = (struct fetch){.pid = pid, .start = clock_seconds()};
    return OK;
}

bool fetch_ended(struct fetch *f, char fault[64])
{
    int status;
    if (waitpid(f->pid, &status, WNOHANG) != f->pid) return false;
    f->pid = 0;
    fault[0] = '\0';
    if (WIFSIGNALED(status))
        snprintf(fault, 64, "was killed by signal %d", WTERMSIG(status));
    else if (WEXITSTATUS(status) == NOT_STARTED)
        snprintf(fault, 64, "cannot be started (exit code %d)", NOT_STARTED);
    else if (WEXITSTATUS(status) != 0)
        snprintf(fault, 64, "ended with exit code %d", WEXITSTATUS(status));
    return true;
}

void fetch_stop(struct fetch *f)
{
    const double patience = 5, end = clock_seconds() + patience;
    const struct timespec pause = {.tv_nsec = 20000000};
    char fault[64];
    if (f->pid <= 0) return;
    const pid_t group = f->pid;
    kill(-group, SIGTERM);
    while (f->pid > 0 && !fetch_ended(f, fault)) {
        if (clock_seconds() > end) kill(-group, SIGKILL);
        nanosleep(&pause, NULL);
    }
}

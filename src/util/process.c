#include "util/process.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

/* The name, field 2, may contain blanks and brackets, so fields are counted from the last ')'. */
const char *process_field(long pid, int field, char line[1024])
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd >= 0 ? read(fd, line, 1023) : 0;
    if (fd >= 0) close(fd);
    line[n > 0 ? n : 0] = '\0';
    const char *p = strrchr(line, ')');
    p = p && p[1] ? p + 2 : NULL;
    for (int i = 3; p && i < field; i++)
        if ((p = strchr(p, ' '))) p++;
    return p && *p ? p : NULL;
}

long long process_start(long pid)
{
    char line[1024];
    const char *start = process_field(pid, 22, line);
    return start ? atoll(start) : -1;
}

bool process_runs(long pid, long long start)
{
    char line[1024];
    const char *state = process_field(pid, 3, line);
    if (kill((pid_t)pid, 0) != 0 && errno == ESRCH) return false;
    if (state && (*state == 'Z' || *state == 'X')) return false; /* it has ended */
    const long long now = process_start(pid);
    return start <= 0 || now <= 0 || now == start; /* else the id was reused */
}

/* --- start of another program --- */

/* In the new process, which has the memory of this one until it runs the program. Returns the errno
 * for which it does not. */
static int become(const struct child *c, pid_t parent)
{
    struct sigaction usual = {.sa_handler = SIG_DFL}, now;
    sigset_t none;
    const int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    setpgid(0, 0);
    if (null >= 0) dup2(null, STDIN_FILENO);
    if (c->out >= 0) dup2(c->out, STDOUT_FILENO), dup2(c->out, STDERR_FILENO);
    if (c->line >= 0 && dup2(c->line, CHILD_LINE) == c->line) fcntl(CHILD_LINE, F_SETFD, 0);
    for (int i = 1; i < NSIG; i++)
        if (i != SIGHUP || sigaction(i, NULL, &now) != 0 || now.sa_handler != SIG_IGN)
            sigaction(i, &usual, NULL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (c->follows) prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (c->follows && getppid() != parent) return ESRCH;
    execvp(c->argv[0], (char *const *)(uintptr_t)c->argv);
    return errno;
}

int child_start(const struct child *c, pid_t *pid)
{
    static _Thread_local volatile int failed;
    const pid_t parent = getpid();
    sigset_t all, kept;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &kept); /* no handler runs in the new process */
    failed = 0;
    *pid = vfork();
    if (*pid == 0) {
        failed = become(c, parent);
        _exit(127);
    }
    if (*pid < 0) failed = errno;
    pthread_sigmask(SIG_SETMASK, &kept, NULL);
    if (*pid > 0 && failed) waitpid(*pid, NULL, 0);
    return failed;
}

/* Loaded by LD_PRELOAD: kills qtraj, not what starts it, with SIGKILL before it writes its
 * $KILL_COUNT-th line to stderr that contains $KILL_TEXT. With $KILL_WAITS it writes the line and
 * waits there for a signal that it handles. So a test kills at a place, not at a time. */
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t heard;
static void (*handlers[NSIG])(int);

static void hear(int number)
{
    heard = 1;
    handlers[number](number);
}

int sigaction(int number, const struct sigaction *action, struct sigaction *before)
{
    int (*next)(int, const struct sigaction *, struct sigaction *) =
        (int (*)(int, const struct sigaction *, struct sigaction *))dlsym(RTLD_NEXT, "sigaction");
    if (!getenv("KILL_WAITS") || !action || (action->sa_flags & SA_SIGINFO) ||
        (number != SIGINT && number != SIGTERM && number != SIGUSR1 && number != SIGUSR2) ||
        action->sa_handler == SIG_DFL || action->sa_handler == SIG_IGN)
        return next(number, action, before);
    struct sigaction own = *action;
    handlers[number] = action->sa_handler;
    own.sa_handler = hear;
    return next(number, &own, before);
}

ssize_t write(int fd, const void *data, size_t n)
{
    static long count;
    const char *text = getenv("KILL_TEXT"), *at = getenv("KILL_COUNT");
    const bool own = strcmp(program_invocation_short_name, "qtraj") == 0;
    const bool here = own && fd == STDERR_FILENO && text && at &&
                      memmem(data, n, text, strlen(text)) &&
                      __atomic_add_fetch(&count, 1, __ATOMIC_SEQ_CST) == atol(at);
    const bool waits = here && getenv("KILL_WAITS");
    if (here && !waits) kill(getpid(), SIGKILL);
    const ssize_t written = syscall(SYS_write, fd, data, n);
    while (waits && !heard) nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    return written;
}

/* Loaded by LD_PRELOAD: kills qtraj, not what starts it, with SIGKILL before it writes its
 * $KILL_COUNT-th line to stderr that contains $KILL_TEXT. So a test kills at a place, not at a
 * time. */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

ssize_t write(int fd, const void *data, size_t n)
{
    static long count;
    const char *text = getenv("KILL_TEXT"), *at = getenv("KILL_COUNT");
    const bool own = strcmp(program_invocation_short_name, "qtraj") == 0;
    if (own && fd == STDERR_FILENO && text && at && memmem(data, n, text, strlen(text)) &&
        __atomic_add_fetch(&count, 1, __ATOMIC_SEQ_CST) == atol(at))
        kill(getpid(), SIGKILL);
    return syscall(SYS_write, fd, data, n);
}

#include "stage/fetch.h"
#include "util/clock.h"
#include "util/fsx.h"
#include "util/mem.h"
#include "util/process.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

/* flock on the log stays with the command, which has it as its output: so no two fill one folder,
 * whatever becomes of this process. The shell becomes the command; its companion ends the group
 * when the line is closed, after five seconds also what does not heed SIGTERM. */
enum status fetch_start(struct fetch *f, const json_t *command, const char *log, struct err *e)
{
    static const char *const shell[] = {
        "sh", "-c",
        "{ trap '' TERM; read _; kill -TERM 0; sleep 5; kill -KILL 0; } <&3 >/dev/null 2>&1 & "
        "exec 3<&- </dev/null; exec \"$@\"",
        "stage"};
    char utc[21];
    AUTO_FREE const char **argv = NULL;
    int line[2], failed;
    size_t i;
    json_t *word;
    CLEANUP(fsx_close) const int fd = fsx_open_as(log, O_WRONLY | O_CREAT | O_APPEND);
    NEED(fd >= 0, fsx_errno_status(errno), "%s: %s", log, strerror(errno));
    if (flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) return OK;
    clock_utc(utc);
    dprintf(fd, "# %s\n", utc);
    PASS(mem_zero(&argv, (int64_t)json_array_size(command) + 5, sizeof *argv, "arguments", e));
    memcpy(argv, shell, sizeof shell);
    json_array_foreach(command, i, word) argv[4 + i] = json_string_value(word);
    NEED(pipe2(line, O_CLOEXEC) == 0, ERR_IO, "no pipe for %s: %s", argv[4], strerror(errno));
    failed = child_start(&(struct child){.argv = argv, .out = fd, .line = line[0]}, &f->pid);
    close(line[0]);
    f->line = line[1];
    if (failed) f->pid = 0, close(f->line);
    NEED(!failed, ERR_IO, "no process for %s: %s", argv[4], strerror(failed));
    return OK;
}

bool fetch_runs(const char *log)
{
    const int fd = fsx_open_as(log, O_RDONLY);
    const bool runs = fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (fd >= 0) close(fd);
    return runs;
}

bool fetch_ended(struct fetch *f, char how[64])
{
    int status;
    if (waitpid(f->pid, &status, WNOHANG) != f->pid) return false;
    if (f->line >= 0) close(f->line);
    f->pid = 0;
    how[0] = '\0';
    if (WIFSIGNALED(status))
        snprintf(how, 64, "was killed by signal %d", WTERMSIG(status));
    else if (WEXITSTATUS(status) != 0)
        snprintf(how, 64, "ended with exit code %d", WEXITSTATUS(status));
    return true;
}

void fetch_stop(struct fetch *f)
{
    const double patience = 10, end = clock_seconds() + patience;
    char how[64];
    if (f->pid <= 0) return;
    close(f->line); /* which its companion notices */
    f->line = -1;
    while (!fetch_ended(f, how) && clock_seconds() < end) clock_sleep(0.02);
    f->pid = 0; /* or it is in a call of the system that does not end */
}

/* child: starts another program, without copying anything of this process, which may use MPI and
 * much memory. Who starts it waits for it by waitpid. */
#pragma once
#include <stdbool.h>
#include <sys/types.h>

struct child {
    const char *const *argv; // (NULL-terminated) the program is looked for in PATH
    int out;      /* becomes its output and its messages; -1: it has those of this process */
    int line;     /* becomes its descriptor CHILD_LINE; -1: none */
    bool follows; /* it gets SIGTERM when the thread that started it ends */
};
enum { CHILD_LINE = 3 };

/* Starts it, in a process group of its own, so that Ctrl-C on the terminal does not reach it; with
 * nothing to read, since a process in the background may not read from the terminal; with no signal
 * blocked, and none ignored but SIGHUP (nohup). Returns 0, or the errno for which it does not run.
 */
int child_start(const struct child *c, pid_t *pid);

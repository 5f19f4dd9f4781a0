/* process: what /proc says of other processes of this machine, whose ids are valid only inside one
 * namespace of them, thread-safe; and the start of another program. */
#pragma once
#include <stdbool.h>
#include <sys/types.h>

/* A field of /proc/PID/stat from the third on, at its start in line; NULL: there is none. */
const char *process_field(long pid, int field, char line[1024]);
/* Clock ticks from boot to its start; -1 if unknown. */
long long process_start(long pid);
/* Whether the process of that id that began at `start` (0 or less: any) still runs. One that has
 * ended, and that nobody has waited for, does not. */
bool process_runs(long pid, long long start);

/* --- start of another program --- */

struct child {
    const char *const *argv; // (NULL-terminated) the program is looked for in PATH
    int out;      /* becomes its output and its messages; -1: it has those of this process */
    int line;     /* becomes its descriptor CHILD_LINE; -1: none */
    bool follows; /* it gets SIGTERM when the thread that started it ends */
};
enum { CHILD_LINE = 3 };

/* Starts it without copying anything of this process, which may use MPI and much memory, in a
 * process group of its own, so that Ctrl-C on the terminal does not reach it; with nothing to read,
 * since a process in the background may not read from the terminal; with no signal blocked, and
 * none ignored but SIGHUP (nohup). Returns 0, or the errno for which it does not run. The caller
 * waits for it by waitpid. */
int child_start(const struct child *c, pid_t *pid);

/* launched: mpirun as the child of `qtraj launch`: starting it, passing on signals, and ending it
 * when the run has ended or does not end. */
#pragma once
#include "util/err.h"

struct launched {
    int code;     /* mpirun's exit code, or 128 + the signal that killed it; 127: not started */
    int verdict;  /* that the run left in the file; -1: none */
    bool later;   /* EXIT_STOPPED for lack of time, or by SIGUSR1 */
    bool stopped; /* a signal asked the run to stop */
};

/* Starts argv (NULL-terminated), waits until it has ended, and reports. SIGINT, SIGTERM and SIGHUP
 * become SIGUSR2, which mpirun passes on to the ranks, whereas it would kill them; SIGUSR1 is
 * passed on as it is. verdict: the file in which the run leaves its exit code. ERR_IO: no process.
 */
MUST_USE enum status launched_run(char *const *argv, const char *verdict, struct launched *out,
                                  struct err *e);

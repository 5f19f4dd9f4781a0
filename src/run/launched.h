/* launched: mpirun as the child of `qtraj launch`: starting it, passing on signals, and ending it
 * when the run has ended or does not end. */
#pragma once
#include "util/err.h"

struct launched {
    int code;     /* mpirun's exit code, or 128 + the signal that killed it */
    int verdict;  /* that rank 0 has sent; -1: none */
    bool later;   /* EXIT_STOPPED for lack of time, or by SIGUSR1 */
    bool stopped; /* a signal asked the run to stop */
    bool unmet;   /* the ranks did not connect, or rank 0 is silent, as was said */
};

struct launched_command {
    char *const *argv; // (NULL-terminated)
    int64_t ranks;
    bool here;           /* all on this host */
    double limit;        /* seconds of running time in which they must meet */
    const char *journal; /* beside it rank 0 makes a file that says that they have, if it cannot
                            reach this process */
};

/* Starts mpirun, waits until it and all processes below it have ended, and reports. SIGINT, SIGTERM
 * and SIGHUP become SIGUSR2, which mpirun passes on to the ranks, whereas it would kill them;
 * SIGUSR1 is passed on as it is. mpirun gets SIGTERM if this process dies. ERR_MPI: it cannot
 * be started; ERR_IO: no socket; ERR_NOMEM. */
MUST_USE enum status launched_run(const struct launched_command *command, struct launched *out,
                                  struct err *e);

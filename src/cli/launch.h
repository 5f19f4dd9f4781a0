/* launch: a run under mpirun, which `qtraj launch` starts once and `qtraj watch` again and again.
 */
#pragma once
#include "cli/run_arguments.h"
#include <time.h>

/* Zero-initialise; free with launch_free. */
struct launch {
    struct run_arguments run;
    int64_t ranks, meet;
    bool requeue;
    bool stopped; /* a signal asked the last run to end */
    /* How far the results were when the run began, for --requeue. */
    char *states; /* folder of saved states; NULL: none are saved */
    int64_t records;
    time_t since;
    struct texts mpirun, argv; /* options of mpirun; the command */
    char until[40];
};
void launch_free(struct launch *l);

/* Parses the arguments; more (n): flags that the command has besides. Errors as of run_arguments.
 */
MUST_USE enum status launch_arguments(struct launch *l, struct call *c, const struct arg *more,
                                      int n, struct err *e);
/* Runs the sweep and waits for its end; *code = the run's exit code. Errors of run_arguments_find
 * and launched_run. */
MUST_USE enum status launch_run(struct launch *l, int *code, struct err *e);

/* run_arguments: what `qtraj run`, `launch`, `watch` and `stage` are given. */
#pragma once
#include "cli/args.h"
#include "plan/plan.h"

/* Zero-initialise; free with run_arguments_free. */
struct run_arguments {
    const char *path; /* of the sweep file; borrowed from the call, as all texts */
    struct texts set, only;
    const char *until; /* as given; NULL: not */
    struct plan_choice choice;
    bool adopt, so_far;
};
void run_arguments_free(struct run_arguments *a);

/* Parses the arguments; more (n): flags that the command has besides. Errors: as args_parse;
 * ERR_USAGE: a bad --only or --part. */
MUST_USE enum status run_arguments(struct run_arguments *a, struct call *c, const struct arg *more,
                                   int n, struct err *e);
/* Reads the sweep (run_read_sweep, sweep_free); *results and *journal (the caller frees) = the cube
 * and the journal that such a run of it writes. Errors of sweep_read; ERR_LOCKED: another run
 * writes them. */
MUST_USE enum status run_arguments_find(const struct run_arguments *a, struct sweep *sweep,
                                        char **results, char **journal, struct err *e);
/* *view (closed with results_view_close) = what is finished, with states, as a run of that part
 * sees it; NULL: nothing has been run. Writes nothing. Errors as of parts_view. */
MUST_USE enum status run_arguments_view(const struct sweep *sweep, const struct plan_part *part,
                                        struct results_view **view, struct err *e);

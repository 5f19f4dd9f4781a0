/* cli: one command, one file. A command parses its arguments, calls down, prints: human text on
 * stderr, results on stdout.
 */
#pragma once
#include "util/err.h"
#include "util/limits.h"
#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

/* Exit codes, everywhere. */
enum exit_code {
    EXIT_DONE = 0,
    EXIT_CELLS_FAILED = 1, /* done, but cells failed */
    EXIT_WARNINGS = 1,     /* doctor: done, but something would slow or break a run */
    EXIT_BAD_INPUT = 2,    /* usage, config, unreadable text, locked; a bad checkpoint of a
                              single-checkpoint command */
    EXIT_STOPPED = 3,      /* resumable: signal, full disk */
    EXIT_INTERNAL = 4
};

/* The exit code that a status of bad input, storage or our own fault stands for. */
int cli_exit_code(enum status st);

struct command {
    const char *name;
    const char *arguments; /* one line of usage */
    const char *doc;
    bool all_ranks; /* runs on every rank of the communicator; else on rank 0 while the others wait
                     */
    bool rank_0_waits; /* when there are others, rank 0 computes nothing and needs no cores */
    /* argv[0] is the command's name. *code: exit code when the status is OK. */
    enum status (*run)(MPI_Comm world, int argc, char **argv, int *code, struct err *e);
};

/* This rank's part of its node, as found at the start; zeros where limits cannot be read. */
const struct limits_share *cli_share(void);

/* Runs argv[1] as a command. Collective on world; every rank returns the same exit code. */
int cli_main(MPI_Comm world, int argc, char **argv);

extern const struct command cmd_run, cmd_plan, cmd_doctor, cmd_status, cmd_show, cmd_rebuild,
    cmd_options, cmd_methods, cmd_architectures, cmd_inspect, cmd_tokenize, cmd_eval, cmd_quantize,
    cmd_curvature;

/* cli: the commands, one file each (closely related ones share a file). A command parses its
 * arguments, calls the layers below and prints: results on stdout, everything else on stderr. */
#pragma once
#include "util/exit_code.h"
#include "util/json.h"
#include "util/limits.h"
#include <mpi.h>
#include <stdio.h>

/* The exit code that a command ends with if it fails with that status. */
int cli_exit_code(enum status st);

struct command;

/* A command as it was called, on one rank. */
struct call {
    const struct command *command;
    MPI_Comm world;
    int argc;
    char **argv; // (argc) argv[0] is the command's name
    int code;    /* enum exit_code if the status is OK; EXIT_DONE unless the command sets it */
    bool later;  /* stopped for lack of time, or by SIGUSR1: the rest is for a later start */
    bool help;   /* --help was answered (args_parse), there is nothing to do */
    /* Ranks of world are lost or are none of its: after it no call of MPI, not even MPI_Finalize */
    bool detached;
    /* args_parse sets it to the command's flags (args_flags) instead of parsing; NULL: it parses */
    json_t **flags;
};

struct command {
    const char *name;
    const char *arguments; /* for its line of usage, without the name */
    const char *doc;       /* a sentence without its capital and its full stop */
    bool all_ranks;        /* collective on world; else it runs on rank 0 while the others wait */
    bool without_mpi;      /* MPI is not started: world is MPI_COMM_NULL */
    bool rank_0_waits;     /* with several ranks, rank 0 does not compute and needs no cores */
    /* What may end the command before MPI is started, which takes half a second, in a process on
     * which no other has to wait: an error, or call.help. NULL: nothing */
    enum status (*early)(struct call *c, struct err *e);
    enum status (*run)(struct call *c, struct err *e);
};

/* This rank's share of its node, as found at the start; zeros if limits cannot be read. */
const struct limits_share *cli_share(void);
/* The part of its memory that this rank may plan with, in bytes. */
int64_t cli_memory(void);
/* The share and the number of threads of this rank as a text, and the same taken from a text: for a
 * process that takes the place of another. ERR_NOMEM; ERR_MPI: malformed. */
void cli_share_write(char text[LIMITS_SHARE_TEXT]);
MUST_USE enum status cli_share_take(const char *text, struct err *e);

/* Prints a JSON value and a newline on stdout. flags: jansson's. json is taken over; NULL:
 * ERR_NOMEM.
 */
MUST_USE enum status cli_print_json(json_t *json, size_t flags, struct err *e);

/* Command i of the table, NULL behind the last. */
const struct command *cli_command_at(int i);
/* The command of that name. ERR_USAGE: there is none, and which there are. */
MUST_USE enum status cli_command_find(const char *name, const struct command **out, struct err *e);
/* Prints which commands there are. */
void cli_print_commands(FILE *out);

/* True if argv[1] is a command without MPI: then cli_main is called with MPI_COMM_NULL. */
bool cli_without_mpi(int argc, char **argv);
/* True if the command has ended before MPI is started (struct command), or MPI cannot be for want
 * of a folder (startup_room), with *code. */
bool cli_ends_early(int argc, char **argv, int *code);
/* What the command that argv[1] names does before MPI starts; and settings of Open MPI. */
void cli_before_mpi(int argc, char **argv);
/* Runs argv[1] as a command. Collective on world; every rank returns the same exit code. *detached:
 * the process must end without another call of MPI, since ranks were lost; the code is rank 0's
 * own. */
int cli_main(MPI_Comm world, int argc, char **argv, bool *detached);

/* The commands, in the order of the help. X(run) is `const struct command cmd_run`, defined in its
 * file; a new command is its file and its line here. */
#define COMMANDS(X)                                                                                \
    X(init)                                                                                        \
    X(run)                                                                                         \
    X(launch)                                                                                      \
    X(watch)                                                                                       \
    X(slurm)                                                                                       \
    X(plan)                                                                                        \
    X(stage)                                                                                       \
    X(status)                                                                                      \
    X(show)                                                                                        \
    X(rebuild)                                                                                     \
    X(merge)                                                                                       \
    X(options)                                                                                     \
    X(variables)                                                                                   \
    X(methods)                                                                                     \
    X(inspect)                                                                                     \
    X(architectures)                                                                               \
    X(eval)                                                                                        \
    X(quantize)                                                                                    \
    X(curvature)                                                                                   \
    X(train)                                                                                       \
    X(average)                                                                                     \
    X(tokenize)                                                                                    \
    X(tasks)                                                                                       \
    X(doctor)                                                                                      \
    X(help)                                                                                        \
    X(version)
#define COMMAND_DECLARE(name) extern const struct command cmd_##name;
COMMANDS(COMMAND_DECLARE)

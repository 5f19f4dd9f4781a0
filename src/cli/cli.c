#include "cli/cli.h"
#include "tensor/isa.h"
#include "util/agree.h"
#include "util/limits.h"
#include "util/log.h"
#include "util/patient.h"
#include <errno.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct command *const commands[] = {
    &cmd_run,      &cmd_plan,      &cmd_status,   &cmd_show,          &cmd_rebuild,
    &cmd_options,  &cmd_methods,   &cmd_inspect,  &cmd_architectures, &cmd_eval,
    &cmd_quantize, &cmd_curvature, &cmd_tokenize, &cmd_doctor,
};
enum { N_COMMANDS = sizeof commands / sizeof *commands };

int cli_exit_code(enum status st)
{
    switch (st) {
    case OK:
        return EXIT_DONE;
    case ERR_USAGE:
    case ERR_SHAPE:
    case ERR_IO:
    case ERR_FORMAT:
    case ERR_LOCKED:
    case ERR_NUMERIC: /* of one checkpoint alone: its weights give no finite numbers */
        return EXIT_BAD_INPUT;
    case ERR_FULL:
    case ERR_STOPPED:
        return EXIT_STOPPED;
    default:
        return EXIT_INTERNAL;
    }
}

static void print_usage(FILE *out)
{
    fprintf(out, "usage: qtraj COMMAND ...\n\n");
    for (int i = 0; i < N_COMMANDS; i++)
        fprintf(out, "  %-60s %s\n", commands[i]->arguments, commands[i]->doc);
    fprintf(out, "\nqtraj COMMAND --help lists a command's flags.\n");
}

static const struct command *find(const char *name)
{
    for (int i = 0; i < N_COMMANDS; i++)
        if (strcmp(commands[i]->name, name) == 0) return commands[i];
    return NULL;
}

static struct limits_share share;

const struct limits_share *cli_share(void)
{
    return &share;
}

int64_t cli_memory(void)
{
    return limits_usable(share.memory);
}

enum status cli_print_json(json_t *json, size_t flags, struct err *e)
{
    enum status st = OK;
    ENSURE(json && json_dumpf(json, stdout, flags) == 0, ERR_NOMEM, "out of memory");
    putchar('\n');
done:
    json_decref(json);
    return st;
}

/* As many OpenMP threads as this rank has cores, unless the user says otherwise: ranks that are not
 * bound see all cores of their node, and OpenMP's default would start that many threads in each.
 * Collective on comm; limits that cannot be read change nothing. */
static void set_threads(MPI_Comm comm, bool works)
{
    struct err e = {0};
    struct limits l = {0};
    const char *given = getenv("OMP_NUM_THREADS");
    enum status st = err_agree(comm, limits_read("", &l, &e), &e);
    if (st == OK) st = limits_share(comm, &l, works, &share, &e);
    if (st != OK) {
        share = (struct limits_share){0};
        log_trace("sched", "threads are left as they are: %s", e.text);
        return;
    }
    enum { MOST = 512 }; /* more threads at once than OpenBLAS's buffers can serve: it crashes */
    int64_t threads = given ? omp_get_max_threads() : share.cores;
    if (threads > MOST) {
        log_warn("%lld threads are more than BLAS can serve; taking %d", (long long)threads, MOST);
        threads = MOST;
    }
    omp_set_num_threads((int)threads);
    log_trace("sched",
              "%lld ranks on this node, %lld of them work; this one: %d threads%s, cores %lld "
              "(%s), memory %.1f GiB of %.1f GiB (%s)",
              (long long)share.ranks, (long long)share.workers, omp_get_max_threads(),
              given ? " (OMP_NUM_THREADS)" : "", (long long)share.cores, l.cores_from,
              (double)share.memory / (1 << 30), (double)l.memory / (1 << 30), l.memory_from);
}

/* QTRAJ_KERNELS, which may not be the same on all nodes. Collective on comm. */
static bool choose_kernels(MPI_Comm comm, int rank)
{
    struct err e = {0};
    enum status st = err_agree(comm, isa_setup(&e), &e);
    if (st != OK && rank == 0) log_error("%s", e.text);
    return st == OK;
}

/* Fails if what was printed could not be written: a full disk behind > must not pass for a result.
 */
static enum status flush_output(struct err *e)
{
    errno = 0;
    NEED(fflush(stdout) == 0 && !ferror(stdout), ERR_IO, "cannot write the output: %s",
         errno ? strerror(errno) : "an earlier part of it failed");
    return OK;
}

/* Returns the exit code; prints the one line of an error. */
static int run(struct call *c)
{
    struct err e = {0};
    int rank;
    MPI_Comm_rank(c->world, &rank);
    enum status st = c->command->run(c, &e);
    if (st == OK && rank == 0) st = flush_output(&e);
    if (st == OK) return c->code;
    if (rank == 0 && e.code != OK) log_error("%s", e.text);
    log_trace("err", "%s%s", e.text, e.trail);
    return cli_exit_code(st);
}

int cli_main(MPI_Comm world, int argc, char **argv)
{
    int rank, size, code = EXIT_DONE;
    MPI_Comm_rank(world, &rank);
    MPI_Comm_size(world, &size);
    if (size > 1) log_rank(rank);
    struct call c = {.command = argc > 1 ? find(argv[1]) : NULL,
                     .world = world,
                     .argc = argc - 1,
                     .argv = argv + 1,
                     .code = EXIT_DONE};
    if (!c.command) {
        bool help = argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
                                 strcmp(argv[1], "help") == 0);
        if (rank == 0 && argc > 1 && !help) log_error("%s: unknown command", argv[1]);
        if (rank == 0) print_usage(help ? stdout : stderr);
        return help ? EXIT_DONE : EXIT_BAD_INPUT;
    }
    if (!choose_kernels(world, rank)) return EXIT_BAD_INPUT;
    if (c.command->all_ranks)
        set_threads(world, !c.command->rank_0_waits || size == 1 || rank > 0);
    else if (rank == 0)
        set_threads(MPI_COMM_SELF, true);
    if (c.command->all_ranks || rank == 0) code = run(&c);
    if (size > 1) {
        MPI_Request request;
        MPI_Ibcast(&code, 1, MPI_INT, 0, world, &request);
        patient_wait(&request);
    }
    return code;
}

#include "cli/cli.h"
#include "math/isa.h"
#include "options/nearest.h"
#include "run/startup.h"
#include "sched/link.h"
#include "util/agree.h"
#include "util/comm.h"
#include "util/limits.h"
#include "util/log.h"
#include "util/page.h"
#include "util/patience.h"
#include <errno.h>
#include <omp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COMMAND_LINE(name) &cmd_##name,
static const struct command *const commands[] = {COMMANDS(COMMAND_LINE)};
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
    case ERR_CHANGED:
    case ERR_LOCKED:
    case ERR_NUMERIC: /* single-checkpoint commands: the weights give numbers that are not finite */
        return EXIT_BAD_INPUT;
    case ERR_FULL:
    case ERR_STOPPED:
        return EXIT_STOPPED;
    default:
        return EXIT_INTERNAL;
    }
}

const struct command *cli_command_at(int i)
{
    return i < N_COMMANDS ? commands[i] : NULL;
}

enum status cli_command_find(const char *name, const struct command **out, struct err *e)
{
    const char *names[N_COMMANDS];
    char advice[400];
    for (int i = 0; i < N_COMMANDS; i++) {
        *out = commands[i];
        names[i] = commands[i]->name;
        if (strcmp(names[i], name) == 0) return OK;
    }
    nearest_advice(name, names, N_COMMANDS, advice, sizeof advice);
    RAISE(ERR_USAGE, "%s: unknown command%s", name, advice);
}

void cli_print_commands(FILE *out)
{
    enum { INDENT = 17 };
    int64_t width = page_width(out, 80);
    fprintf(out, "usage: qtraj COMMAND ...\n\n");
    for (int i = 0; i < N_COMMANDS; i++) {
        fprintf(out, "  %-*s", INDENT - 2, commands[i]->name);
        page_print(out, width, INDENT, INDENT, commands[i]->doc);
    }
    fprintf(out, "\n");
    page_print(out, width, 0, 0,
               "`qtraj help COMMAND` and `qtraj COMMAND --help` list a command's arguments and "
               "flags, `qtraj options` the keys of a sweep file.");
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

void cli_share_write(char text[LIMITS_SHARE_TEXT])
{
    snprintf(text, LIMITS_SHARE_TEXT, "%lld %lld %lld %lld %d %d", (long long)share.memory,
             (long long)share.cores, (long long)share.ranks, (long long)share.workers, share.bound,
             omp_get_max_threads());
}

enum status cli_share_take(const char *text, struct err *e)
{
    long long memory, cores, ranks, workers;
    int bound, threads;
    NEED(sscanf(text, "%lld %lld %lld %lld %d %d", &memory, &cores, &ranks, &workers, &bound,
                &threads) == 6 &&
             threads > 0,
         ERR_MPI, "a rank's share of its node is malformed: %s", text);
    share = (struct limits_share){memory, cores, ranks, workers, bound};
    omp_set_num_threads(threads);
    return OK;
}

enum status cli_print_json(json_t *json, size_t flags, struct err *e)
{
    json_auto_t *taken = json;
    NEED(taken && json_dumpf(taken, stdout, flags) == 0, ferror(stdout) ? ERR_FULL : ERR_NOMEM,
         "cannot write the output");
    putchar('\n');
    return OK;
}

/* Starts as many OpenMP threads as this rank has cores, unless the user sets the number: OpenMP's
 * default would be all cores of the node for each unbound rank. Collective on comm; does nothing if
 * limits cannot be read. */
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

/* Fails if the output could not be written, for example to a full disk or a closed pipe. */
static enum status flush_output(struct err *e)
{
    errno = 0;
    NEED(fflush(stdout) == 0 && !ferror(stdout), ERR_FULL, "cannot write the output: %s",
         errno ? strerror(errno) : "an earlier part of it failed");
    return OK;
}

/* The output is a pipe whose reader has ended, as of `qtraj show | head`: nobody needs a message.
 */
static bool output_unread(void)
{
    struct pollfd out = {.fd = STDOUT_FILENO};
    return poll(&out, 1, 0) == 1 && (out.revents & POLLERR);
}

/* Returns the exit code; prints the one line of an error. */
static int run(struct call *c, enum status (*what)(struct call *c, struct err *e))
{
    struct err e = {0};
    const int rank = c->world == MPI_COMM_NULL ? 0 : comm_rank(c->world);
    enum status st = what(c, &e);
    if (st == OK && rank == 0 && c->code == EXIT_DONE) st = json_whole(&e);
    if (st == OK && rank == 0) st = flush_output(&e);
    if (st == OK) return c->code;
    if (json_failures() > 0) st = ERR_NOMEM; /* whatever else followed from that */
    if (st == ERR_NOMEM && !strstr(e.text, status_text(st))) err_prefix(&e, "%s", status_text(st));
    const bool unread = st == ERR_FULL && output_unread();
    if (rank == 0 && e.code != OK && !unread) log_error("%s", e.text);
    log_trace("err", "%s%s", e.text, e.trail);
    return cli_exit_code(st);
}

/* The command that argv[1] names; --help and --version are spellings of two. NULL: none, or it is
 * unknown, which this says if it may speak. */
static const struct command *choose(int argc, char **argv, bool speak)
{
    static const char *const spellings[][2] = {
        {"--help", "help"}, {"-h", "help"}, {"--version", "version"}, {"-V", "version"}};
    const struct command *command = NULL;
    struct err e = {0};
    if (argc < 2) {
        if (speak) cli_print_commands(stderr);
        if (speak) log_error("a command is missing");
        return NULL;
    }
    const char *name = argv[1];
    for (size_t i = 0; i < sizeof spellings / sizeof *spellings; i++)
        if (strcmp(name, spellings[i][0]) == 0) name = spellings[i][1];
    if (cli_command_find(name, &command, &e) == OK) return command;
    if (speak) log_error("%s", e.text);
    return NULL;
}

/* The call that the arguments of the program make. */
static struct call call_of(MPI_Comm world, int argc, char **argv, bool speak)
{
    return (struct call){.command = choose(argc, argv, speak),
                         .world = world,
                         .argc = argc - 1,
                         .argv = argv + 1,
                         .code = EXIT_DONE};
}

bool cli_without_mpi(int argc, char **argv)
{
    const struct command *command = choose(argc, argv, false);
    return command && command->without_mpi;
}

void cli_before_mpi(int argc, char **argv)
{
    const struct command *command = choose(argc, argv, false);
    const char *isolated = "OMPI_MCA_ess_singleton_isolated";
    int failed = 0;
    /* Beside a process that runs alone, Open MPI would start a daemon, which takes a quarter of a
     * second and opens ports. Without it, all such processes of a user on a host would share one
     * folder of Open MPI, which one removes at its end while another makes its own in it: MPI_Init
     * then fails. They need no folder, and no network, which takes a fifth of a second to look for.
     */
    if (startup_rank() < 0) failed = setenv(isolated, "1", 0) || setenv("OMPI_MCA_pml", "ob1", 0);
    if (startup_rank() < 0 && !failed && strcmp(getenv(isolated), "1") == 0)
        failed = setenv("OMPI_MCA_orte_create_session_dirs", "0", 0);
    if (failed) log_trace("link", "out of memory for settings of Open MPI");
    startup_begin(command && command->all_ranks, EXIT_INTERNAL);
}

/* Whether the process may end before MPI_Init: if no launcher has started it, or if it is rank 0 of
 * Open MPI's mpirun, which then ends the others. With recovery, and under other launchers, they
 * might wait for it for ever. */
static bool may_end_early(void)
{
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    if (rank) return strcmp(rank, "0") == 0 && !link_recovers();
    return startup_rank() < 0;
}

bool cli_ends_early(int argc, char **argv, int *code)
{
    struct call c = call_of(MPI_COMM_NULL, argc, argv, false);
    struct err e = {0};
    if (startup_is_first_here() && startup_room(startup_rank() >= 0, &e) != OK) {
        log_error("%s", e.text);
        *code = cli_exit_code(e.code);
        return true;
    }
    if (!c.command || !c.command->early || !may_end_early()) return false;
    *code = run(&c, c.command->early);
    return *code != EXIT_DONE || c.help;
}

int cli_main(MPI_Comm world, int argc, char **argv, bool *detached)
{
    const bool alone = world == MPI_COMM_NULL;
    const int rank = alone ? 0 : comm_rank(world), size = alone ? 1 : comm_size(world);
    int code = EXIT_BAD_INPUT;
    struct err e = {0};
    *detached = false;
    if (size > 1) log_rank(rank);
    struct call c = call_of(world, argc, argv, rank == 0);
    if (!c.command) return EXIT_BAD_INPUT;
    if (alone) return run(&c, c.command->run);
    /* QTRAJ_KERNELS may differ between nodes */
    if (err_agree(world, isa_setup(&e), &e) == OK) {
        if (c.command->all_ranks)
            set_threads(c.world, !c.command->rank_0_waits || size == 1 || rank > 0);
        else if (rank == 0)
            set_threads(MPI_COMM_SELF, true);
        if (c.command != &cmd_run) startup_end();
        code = c.command->all_ranks || rank == 0 ? run(&c, c.command->run) : EXIT_DONE;
    } else if (rank == 0)
        log_error("%s", e.text);
    startup_end();
    *detached = c.detached;
    if (rank == 0 && c.command == &cmd_run) startup_tell(c.later ? STARTUP_LATER : code);
    if (size > 1 && !c.detached) {
        MPI_Request request;
        MPI_Ibcast(&code, 1, MPI_INT, 0, world, &request);
        patience_wait(&request);
    }
    return code;
}

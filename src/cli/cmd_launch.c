/* qtraj launch: starts `qtraj run` under mpirun, with which a run outlives its ranks, and ends as
 * the run did. */
#include "cli/launch.h"
#include "plan/plan.h"
#include "records/measures.h"
#include "records/results.h"
#include "records/saved.h"
#include "records/slurm.h"
#include "run/launched.h"
#include "run/run_journal.h"
#include "run/run_until.h"
#include "run/startup.h"
#include "util/fsx.h"
#include "util/log.h"
#include "util/mem.h"
#include <errno.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- the command --- */

static enum status add_all(struct launch *l, const char *const *words, struct err *e)
{
    for (; *words; words++) PASS(texts_append(&l->argv, *words, e));
    return OK;
}

/* A list's items with their flag. */
static enum status add_list(struct launch *l, const char *flag, const struct texts *list,
                            struct err *e)
{
    for (int64_t i = 0; i < list->n; i++)
        PASS(add_all(l, (const char *const[]){flag, list->text[i], NULL}, e));
    return OK;
}

/* Options of mpirun: those given, else as many ranks as wanted, wherever there is room. */
static enum status add_options(struct launch *l, struct err *e)
{
    static const char *const usual[] = {"--oversubscribe", "--bind-to", "none", NULL};
    static const char *const recovery[] = {"--enable-recovery", "-x", STARTUP_LAUNCH, "-x",
                                           STARTUP_FILE,        NULL};
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    MPI_Get_library_version(version, &length);
    const bool open_mpi = strncmp(version, "Open MPI", 8) == 0;
    if (open_mpi) PASS(add_all(l, recovery, e));
    if (open_mpi && l->mpirun.n == 0) PASS(add_all(l, usual, e));
    for (int64_t i = 0; i < l->mpirun.n; i++) {
        AUTO_FREE char *words = NULL;
        char *next = NULL;
        PASS(mem_string(&words, l->mpirun.text[i], e));
        for (char *w = strtok_r(words, " ", &next); w; w = strtok_r(NULL, " ", &next))
            PASS(texts_append(&l->argv, w, e));
    }
    return OK;
}

static enum status make_command(struct launch *l, struct err *e)
{
    char self[PATH_MAX] = "", number[24], part[48];
    NEED(readlink("/proc/self/exe", self, sizeof self - 1) > 0, ERR_IO, "/proc/self/exe: %s",
         strerror(errno));
    texts_free(&l->argv);
    if (l->ranks == 0) {
        /* One worker for every OMP_NUM_THREADS cores, and the master, which needs none. */
        struct limits limits;
        const char *given = getenv("OMP_NUM_THREADS");
        const int64_t threads = given ? atoll(given) : 1;
        PASS(limits_read("", &limits, e));
        l->ranks = 1 + (threads > 1 ? limits.cores / threads : limits.cores);
        if (l->ranks < 2) l->ranks = 2;
    }
    NEED(l->ranks > 0, ERR_USAGE, "-n %lld: expected at least 1 rank", (long long)l->ranks);
    snprintf(number, sizeof number, "%lld", (long long)l->ranks);
    PASS(add_all(l, (const char *const[]){"mpirun", "-n", number, NULL}, e));
    PASS(add_options(l, e));
    PASS(add_all(l, (const char *const[]){self, "run", l->run.path, NULL}, e));
    PASS(add_list(l, "--set", &l->run.set, e));
    PASS(add_list(l, "--only", &l->run.only, e));
    const struct plan_choice *c = &l->run.choice;
    snprintf(part, sizeof part, "--part=%lld/%lld", (long long)c->part.k, (long long)c->part.n);
    if (c->part.n) PASS(texts_append(&l->argv, part, e));
    if (c->retry_failed) PASS(texts_append(&l->argv, "--retry=failed", e));
    if (c->redo) PASS(texts_append(&l->argv, "--redo", e));
    if (l->run.adopt) PASS(texts_append(&l->argv, "--adopt", e));
    if (l->run.so_far) PASS(texts_append(&l->argv, "--so-far", e));
    return l->until[0] ? add_all(l, (const char *const[]){"--until", l->until, NULL}, e) : OK;
}

/* Whether all ranks will be on this host, as far as is known before mpirun starts. */
static bool all_here(const struct launch *l)
{
    static const char *const hosts[] = {"PBS_NODEFILE", "LSB_HOSTS", "LSB_DJOB_HOSTFILE",
                                        "PE_HOSTFILE", "OMPI_MCA_orte_default_hostfile"};
    const char *nodes = getenv("SLURM_JOB_NUM_NODES");
    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++)
        if (getenv(hosts[i])) return false;
    return l->mpirun.n == 0 && (!nodes || atoi(nodes) <= 1);
}

/* --- afterwards --- */

static int64_t size_of(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0 ? s.st_size : 0;
}

static int find_code(const struct launched *how, const char *results, const char *journal,
                     int64_t before)
{
    if (how->verdict >= 0) return how->verdict;
    if (how->unmet) return EXIT_INTERNAL;
    /* -1: nothing was written to the journal since, or the run that did has not ended. */
    struct err e = {0};
    int recorded = -1;
    CLEANUP(results_view_close_at) struct results_view *view = NULL;
    if (size_of(journal) != before &&
        results_view_open(journal, VIEW_STATES, NULL, &view, &e) == OK && view->end)
        recorded = (int)json_integer_value(json_object_get(view->end, "exit_code"));
    if (recorded >= 0) return recorded;
    if (how->stopped) return EXIT_STOPPED;
    if (how->code > 0 && how->code < 128) {
        const bool refused = geteuid() == 0 && !(getenv("OMPI_ALLOW_RUN_AS_ROOT") &&
                                                 getenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"));
        log_error("mpirun has failed (code %d); %s", how->code,
                  refused ? "Open MPI runs as root only if OMPI_ALLOW_RUN_AS_ROOT=1 and "
                            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 are set"
                          : "nothing says how the run ended");
        return EXIT_INTERNAL;
    }
    log_error("%s: the run was killed; start it again to continue", results);
    return EXIT_STOPPED;
}

static enum status count_results(const char *path, int64_t *n, struct err *e)
{
    CLEANUP(journal_close_at) struct journal *journal = NULL;
    *n = 0;
    if (!fsx_is_file(path)) return OK;
    PASS(journal_open_readonly(path, &journal, e));
    for (int64_t i = 0; i < journal_n(journal); i++) {
        json_auto_t *record = NULL;
        PASS(journal_read(journal, i, NULL, &record, e));
        const char *type = json_text(record, "type", "");
        *n += measure_find(type) || strcmp(type, "completion") == 0;
    }
    return OK;
}

/* A run that broke off is started again, some times; fewer if its ranks never meet. */
static enum status launch_until_end(struct launch *l, const char *journal, struct launched *how,
                                    struct err *e)
{
    enum { TIMES = 20, UNMET = 3 };
    const struct launched_command command = {.argv = l->argv.text,
                                             .ranks = l->ranks,
                                             .here = all_here(l),
                                             .limit = l->meet > 0 ? (double)l->meet
                                                                  : startup_limit(l->ranks),
                                             .journal = journal};
    for (int i = 0, unmet = 0; i <= TIMES; i++) {
        PASS(launched_run(&command, how, e));
        unmet = how->unmet ? unmet + 1 : 0;
        if ((how->verdict != STARTUP_AGAIN && !how->unmet) || how->stopped || unmet == UNMET) break;
        if (i < TIMES) log_info("starting the run again");
    }
    if (how->verdict == STARTUP_AGAIN) how->verdict = EXIT_STOPPED;
    return OK;
}

void launch_free(struct launch *l)
{
    free(l->states);
    texts_free(&l->argv);
    texts_free(&l->mpirun);
    run_arguments_free(&l->run);
}

enum status launch_arguments(struct launch *l, struct call *c, const struct arg *more, int n,
                             struct err *e)
{
    enum { OWN = 4, MOST = 8 };
    const struct arg own[OWN] = {
        {"-n", ARG_INTEGER, &l->ranks, "RANKS",
         "ranks to start, one of which distributes the work; one more than cores by default"},
        {"--mpirun", ARG_LIST, &l->mpirun, "OPTIONS",
         "options of mpirun, separated by spaces, in place of --oversubscribe --bind-to none"},
        {"--requeue", ARG_SWITCH, &l->requeue, NULL,
         "in a Slurm job that runs out of time or gets SIGUSR1: have it requeued, to continue"},
        {"--meet", ARG_INTEGER, &l->meet, "SECONDS",
         "in which all ranks must have met, else they are started again (default: 120, and 0.1 a "
         "rank)"},
    };
    struct arg table[MOST];
    double when;
    memcpy(table, own, sizeof own);
    if (n > 0) memcpy(table + OWN, more, (size_t)n * sizeof *more);
    PASS(run_arguments(&l->run, c, table, OWN + n, e));
    if (c->help || !l->run.until) return OK;
    PASS(run_until_find(l->run.until, &when, e));
    snprintf(l->until, sizeof l->until, "@%.2f", when); /* the run may be started again */
    return OK;
}

enum status launch_run(struct launch *l, int *code, struct err *e)
{
    struct launched how;
    CLEANUP(sweep_free) struct sweep sweep = {0};
    AUTO_FREE char *results = NULL, *journal = NULL;
    PASS(run_arguments_find(&l->run, &sweep, &results, &journal, e));
    PASS(run_journal_folder(journal, e));
    PASS(startup_room(true, e));
    PASS(make_command(l, e));
    l->since = time(NULL);
    if (l->requeue) PASS(count_results(journal, &l->records, e));
    if (l->requeue && !l->states)
        PASS(
            plan_states_folder(&(struct plan){.sweep = &sweep, .results = results}, &l->states, e));
    const int64_t before = size_of(journal);
    PASS(launch_until_end(l, journal, &how, e));
    *code = find_code(&how, results, journal, before);
    l->stopped = how.stopped;
    if (l->requeue && how.later && !how.stopped) {
        /* Without a new result or saved state, the next start would do no better. */
        int64_t now = 0;
        char why[256];
        if (count_results(journal, &now, NULL) == OK && now <= l->records &&
            !(l->states && saved_since(l->states, l->since)))
            log_warn(
                "the job is not requeued: in its time no result was finished and no state saved; "
                "give it more time");
        else if (slurm_requeue(why, sizeof why))
            log_info("the job is requeued; its next start continues");
        else
            log_warn("the job is not requeued (scontrol requeue: %s); submit it again to continue",
                     why);
    }
    return OK;
}

static enum status run(struct call *c, struct err *e)
{
    CLEANUP(launch_free) struct launch l = {0};
    enum status st = launch_arguments(&l, c, NULL, 0, e);
    if (st == OK && !c->help) st = launch_run(&l, &c->code, e);
    return st;
}

const struct command cmd_launch = {
    .name = "launch",
    .arguments = "[-n RANKS] SWEEP.yaml [--set KEY=VALUE] [--only KEY=PATTERN] ...",
    .doc = "start a run under mpirun, outlive dead ranks, and end with the run's exit code",
    .without_mpi = true,
    .run = run,
};

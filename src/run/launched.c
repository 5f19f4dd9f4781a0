#include "run/launched.h"
#include "run/arrivals.h"
#include "run/startup.h"
#include "util/clock.h"
#include "util/exit_code.h"
#include "util/log.h"
#include "util/mem.h"
#include "util/patience.h"
#include "util/process.h"
#include "util/temporary.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NO_VERDICT = -1 };

/* Seconds that mpirun gets: to end when the run has ended or was asked to, or has broken off; then
 * after SIGTERM, which processes that outlive it get, too. */
static const double linger = 10, broken_off = 1, after_term = 5;

struct run {
    pid_t pid;
    const struct launched_command *command;
    struct arrivals *arrivals;
    char *file; /* that says that the ranks have met */
    bool met;
    double asked; /* clock_seconds of the first signal to stop, or of the end of rank 0; 0: none */
    double termed;
    double patience; /* seconds after `asked` */
};

/* Signals are caught, not blocked: threads of a library would not block them. */
static const int caught[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGCHLD};
enum { CAUGHT = sizeof caught / sizeof *caught };
static int heard[2] = {-1, -1}; /* a pipe: a byte for each signal */

static void on_signal(int number)
{
    const int kept = errno;
    const unsigned char byte = (unsigned char)number;
    if (write(heard[1], &byte, 1) < 0) {
    } /* full: this one changes nothing any more */
    errno = kept;
}

/* Signals reach the ranks of a run through mpirun only, while it runs. */
static void pass_on(struct run *c, struct launched *out)
{
    unsigned char number;
    while (read(heard[0], &number, 1) == 1) {
        if (number == SIGCHLD) continue;
        if (c->pid > 0) kill(c->pid, number == SIGUSR1 ? SIGUSR1 : SIGUSR2);
        if (number == SIGUSR1) continue;
        out->stopped = true;
        if (c->asked <= 0) c->asked = clock_seconds();
    }
}

/* An mpirun that does not end by itself. */
static void urge(struct run *c)
{
    const double now = clock_seconds();
    if (c->termed > 0) {
        if (now - c->termed > after_term) kill(-c->pid, SIGKILL);
        return;
    }
    if (c->asked <= 0 || now - c->asked < c->patience) return;
    if (c->patience >= linger) log_warn("mpirun does not end; it is terminated");
    kill(c->pid, SIGTERM);
    c->termed = now;
}

static void end_apart(struct run *c, struct launched *out, const char *why)
{
    log_error("%s", why);
    out->unmet = true;
    c->patience = 0;
    c->asked = clock_seconds();
}

/* Whether rank 0 runs, and the ranks connect in time. */
static void look_for_ranks(struct run *c, const struct arrivals_view *v, struct launched *out)
{
    char who[300], why[500];
    c->met = c->met || v->met;
    if (c->asked > 0) return;
    if (c->met) {
        arrivals_name(c->arrivals, 0, who, sizeof who);
        snprintf(why, sizeof why,
                 "%s has been silent for %.0f s: it is stopped, or its host is gone", who,
                 v->silent);
        if (v->silent > patience_limit()) end_apart(c, out, why);
        return;
    }
    if (v->ended >= 0) {
        arrivals_name(c->arrivals, v->ended, who, sizeof who);
        snprintf(why, sizeof why, "%s has ended before all ranks had met", who);
        end_apart(c, out, why);
    } else if (v->run > c->command->limit + ARRIVALS_SILENT) {
        c->met = access(c->file, F_OK) == 0;
        arrivals_describe(c->arrivals, who, sizeof who);
        snprintf(why, sizeof why,
                 "the ranks have not connected within %.0f s: %s; --meet SECONDS gives them "
                 "longer",
                 c->command->limit, who);
        if (!c->met) end_apart(c, out, why);
    }
}

static void attend(struct run *c, struct launched *out)
{
    const int often_ms = 200;
    struct pollfd wake = {.fd = heard[0], .events = POLLIN};
    int status;
    for (;;) {
        poll(&wake, 1, often_ms);
        pass_on(c, out);
        const bool ended = waitpid(c->pid, &status, WNOHANG) == c->pid;
        const struct arrivals_view v = arrivals_look(c->arrivals);
        out->verdict = v.verdict;
        if (ended) break;
        look_for_ranks(c, &v, out);
        if (c->asked <= 0 && (v.verdict != NO_VERDICT || v.gone)) c->asked = clock_seconds();
        if (!out->unmet) c->patience = v.verdict == STARTUP_AGAIN ? broken_off : linger;
        urge(c);
    }
    c->pid = 0;
    out->code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    out->later = out->verdict == STARTUP_LATER;
    if (out->later) out->verdict = EXIT_STOPPED;
}

static void signal_children(int signal)
{
    char path[64];
    int pid;
    snprintf(path, sizeof path, "/proc/self/task/%ld/children", (long)getpid());
    FILE *f = fopen(path, "r");
    if (!f) return;
    while (fscanf(f, "%d", &pid) == 1) kill((pid_t)pid, signal);
    fclose(f);
}

/* Processes whose parent was mpirun are children of this one now. SIGTERM lets rank 0 record the
 * end. */
static void end_leftover(void)
{
    const double begun = clock_seconds();
    signal_children(SIGTERM);
    for (long pause = 0; clock_seconds() - begun < 2 * after_term; patience_pause(&pause)) {
        const pid_t pid = waitpid(-1, NULL, WNOHANG);
        if (pid < 0 && errno == ECHILD) return;
        if (pid == 0 && clock_seconds() - begun > after_term) signal_children(SIGKILL);
    }
}

enum status launched_run(const struct launched_command *command, struct launched *out,
                         struct err *e)
{
    enum status st = OK;
    struct sigaction before[CAUGHT];
    struct run c = {.command = command};
    const struct child child = {
        .argv = (const char *const *)command->argv, .out = -1, .line = -1, .follows = true};
    char *met = NULL;
    /* nohup's SIGHUP stays ignored. */
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    for (int i = 0; i < CAUGHT; i++) {
        sigaction(caught[i], NULL, &before[i]);
        if (caught[i] != SIGHUP || before[i].sa_handler != SIG_IGN)
            sigaction(caught[i], &action, NULL);
    }
    ENSURE(pipe2(heard, O_CLOEXEC | O_NONBLOCK) == 0, ERR_IO, "no descriptor for signals: %s",
           strerror(errno));
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    *out = (struct launched){.verdict = NO_VERDICT};
    /* Not a temporary name of the journal: who takes its lock removes all of those. */
    TRY(mem_format(&met, e, "%s.met", command->journal));
    TRY(temporary_begin(met, &c.file, e));
    ENSURE(setenv(STARTUP_FILE, c.file, 1) == 0, ERR_NOMEM, "out of memory");
    TRY(arrivals_open(command->ranks, command->here, &c.arrivals, e));
    const int failed = child_start(&child, &c.pid);
    if (failed) c.pid = 0;
    ENSURE(!failed, ERR_MPI, "%s cannot be started: %s", command->argv[0], strerror(failed));
    attend(&c, out);
    end_leftover();
done:
    for (int i = 0; i < CAUGHT; i++) sigaction(caught[i], &before[i], NULL);
    pass_on(&c, out);
    for (int i = 0; i < 2; i++) close(heard[i]), heard[i] = -1;
    arrivals_close(c.arrivals);
    temporary_end(c.file);
    free(met);
    return st;
}

/* What stops or drains a run: signals, and the end of its time; and a thread that acts when the
 * main thread does not. */
#include "sched/sched_internal.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/mem.h"
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/eventfd.h>

static volatile sig_atomic_t state = SIGNAL_NONE, first, stops; /* the first and all to stop */
static int stopping = -1; /* eventfd: written to by each signal to stop, and to wake its waiter */
static double ends = INFINITY, last = INFINITY;

static void on_signal(int number)
{
    if (number != SIGUSR1) {
        if (stops++ == 0) first = number;
        state = SIGNAL_STOP;
        eventfd_write(stopping, 1);
    } else if (state == SIGNAL_NONE) {
        state = SIGNAL_DRAIN;
    }
}

void sched_catch_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    if (stopping < 0) stopping = eventfd(0, EFD_CLOEXEC);
    sigemptyset(&action.sa_mask);
    sigaction(SIGUSR1, &action, NULL);
    sigaction(SIGUSR2, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
}

void sched_end(double end, double at_last)
{
    ends = end;
    last = at_last;
}

double sched_ends(void)
{
    return ends;
}

bool sched_must_stop(void)
{
    return state == SIGNAL_STOP;
}

bool sched_must_end(void)
{
    return state != SIGNAL_NONE;
}

enum signal_state sched_signal(void)
{
    return clock_seconds() < ends ? (enum signal_state)state : SIGNAL_STOP;
}

/* --- the deadline --- */

struct deadline {
    double seconds, grace, opened;
    void (*late)(void *context);
    void *context;
    atomic_bool closed;
    pthread_t thread;
};

static void *wait_for_signal(void *deadline)
{
    struct deadline *d = deadline;
    while (state != SIGNAL_STOP && clock_seconds() < last && !d->closed) {
        const double most = 900, left = last - clock_seconds(), wait = left < most ? left : most;
        struct pollfd signal = {.fd = stopping, .events = POLLIN};
        eventfd_t n;
        if (wait > 0 && poll(&signal, 1, (int)(1e3 * wait) + 1) == 1) eventfd_read(stopping, &n);
    }
    /* mpirun passes SIGUSR2 on and waits, but kills its ranks some seconds after the others: by
     * default after one. */
    const double done = clock_seconds() - d->opened, reserve = 0.75;
    const char *kills = getenv("OMPI_MCA_odls_base_sigkill_timeout");
    double most = fmin(done, d->grace);
    if (first != SIGUSR2 && getenv("OMPI_COMM_WORLD_SIZE"))
        most = fmin(most, (kills ? atof(kills) : 1) - reserve);
    const double grace = state == SIGNAL_STOP ? fmax(most, d->seconds) : d->seconds;
    if (grace > d->seconds && !d->closed)
        log_info("stopping, in %.0f s at most, to save the state of long work; a second signal "
                 "ends at once",
                 grace);
    double end = clock_seconds() + grace;
    while (!d->closed && clock_seconds() < end) {
        clock_sleep(0.002);
        if (stops > 1 && end > clock_seconds() + d->seconds) end = clock_seconds() + d->seconds;
    }
    if (!d->closed) d->late(d->context);
    return NULL;
}

enum status deadline_open(double seconds, double grace, void (*late)(void *), void *context,
                          struct deadline **out, struct err *e)
{
    AUTO_FREE struct deadline *d = NULL;
    PASS(mem_zero(&d, 1, sizeof *d, "a deadline", e));
    d->seconds = seconds;
    d->grace = grace;
    d->opened = clock_seconds();
    d->late = late;
    d->context = context;
    NEED(pthread_create(&d->thread, NULL, wait_for_signal, d) == 0, ERR_NOMEM,
         "out of memory: no thread for signals");
    *out = TAKE(d);
    return OK;
}

void deadline_close(struct deadline *d)
{
    if (!d) return;
    d->closed = true;
    eventfd_write(stopping, 1);
    pthread_join(d->thread, NULL);
    free(d);
}

/* What stops or drains a run: signals, and the end of its time; and a thread that acts when the
 * main thread does not. */
#include "sched/sched_internal.h"
#include "util/clock.h"
#include "util/mem.h"
#include <math.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

static volatile sig_atomic_t state = SIGNAL_NONE;
static sem_t
    stopping; /* posted by each signal to stop, and by who wants its waiter to look around */
static bool ready;
static double ends = INFINITY, last = INFINITY;

static void on_signal(int number)
{
    if (number != SIGUSR1) {
        state = SIGNAL_STOP;
        sem_post(&stopping);
    } else if (state == SIGNAL_NONE) {
        state = SIGNAL_DRAIN;
    }
}

void sched_catch_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    if (!ready) sem_init(&stopping, 0, 0);
    ready = true;
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

bool sched_told_to_stop(void)
{
    return state == SIGNAL_STOP;
}

bool sched_told_to_end(void)
{
    return state != SIGNAL_NONE;
}

enum signal_state sched_signal(void)
{
    return clock_seconds() < ends ? (enum signal_state)state : SIGNAL_STOP;
}

/* --- the deadline --- */

struct deadline {
    double seconds;
    void (*late)(void *context);
    void *context;
    atomic_bool closed;
    pthread_t thread;
};

/* Waits for a signal, or a quarter of an hour, or until the last moment. The semaphore's clock may
 * be set. */
static void wait_a_while(void)
{
    const double most = 900, left = last - clock_seconds(), wait = left < most ? left : most;
    struct timespec until;
    if (wait <= 0) return;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += (time_t)wait;
    until.tv_nsec += (long)(1e9 * (wait - floor(wait)));
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    sem_timedwait(&stopping, &until);
}

static void *wait_for_signal(void *deadline)
{
    struct deadline *d = deadline;
    while (state != SIGNAL_STOP && clock_seconds() < last && !d->closed) wait_a_while();
    for (double end = clock_seconds() + d->seconds; !d->closed && clock_seconds() < end;)
        clock_sleep(0.002);
    if (!d->closed) d->late(d->context);
    return NULL;
}

enum status deadline_open(double seconds, void (*late)(void *), void *context,
                          struct deadline **out, struct err *e)
{
    enum status st = OK;
    struct deadline *d = NULL;
    TRY(mem_zero(&d, 1, sizeof *d, "a deadline", e));
    d->seconds = seconds;
    d->late = late;
    d->context = context;
    ENSURE(pthread_create(&d->thread, NULL, wait_for_signal, d) == 0, ERR_NOMEM,
           "out of memory: no thread for signals");
    *out = d;
    d = NULL;
done:
    free(d);
    return st;
}

void deadline_close(struct deadline *d)
{
    if (!d) return;
    d->closed = true;
    sem_post(&stopping);
    pthread_join(d->thread, NULL);
    free(d);
}

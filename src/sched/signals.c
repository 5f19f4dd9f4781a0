/* What stops or drains a run: signals, and the end of its time. */
#include "sched/sched_internal.h"
#include "util/clock.h"
#include <math.h>
#include <signal.h>

static volatile sig_atomic_t state = SIGNAL_NONE;
static sem_t stopping;
static bool ready;
static double ends = INFINITY, last = INFINITY;

sem_t *sched_stopping(void)
{
    return &stopping;
}

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

double sched_last(void)
{
    return last;
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

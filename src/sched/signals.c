/* Which signals stop or drain a run. */
#include "sched/sched_internal.h"
#include <signal.h>

static volatile sig_atomic_t state = SIGNAL_NONE;
static sem_t stopping;
static bool ready;

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

enum signal_state sched_signal(void)
{
    return (enum signal_state)state;
}

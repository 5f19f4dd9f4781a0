#include "cli/startup.h"
#include "sched/link.h"
#include "util/clock.h"
#include "util/log.h"
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>

static atomic_bool over;
static void (*on_apart)(double seconds);

/* Time in which this process was stopped counts little. */
static void *wait_for_ranks(void *unused)
{
    const struct timespec often = {.tv_nsec = 100000000};
    const double most = 1;
    (void)unused;
    for (double run = 0, last = clock_seconds(); run < link_patience();) {
        nanosleep(&often, NULL);
        if (over) return NULL;
        const double now = clock_seconds();
        run += now - last < most ? now - last : most;
        last = now;
    }
    if (!atomic_exchange(&over, true)) on_apart(link_patience());
    return NULL;
}

void startup_begin(void (*apart)(double seconds))
{
    enum { STACK = 256 * 1024 }; /* memory may be scarce */
    pthread_t thread;
    pthread_attr_t attr;
    sigset_t all, old;
    sigfillset(&all);
    on_apart = apart;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    if (pthread_create(&thread, &attr, wait_for_ranks, NULL) != 0)
        log_trace("sched", "nobody watches whether the ranks come together");
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attr);
}

void startup_end(void)
{
    over = true;
}

#include "sched/deadline.h"
#include "sched/sched_internal.h"
#include "util/clock.h"
#include "util/mem.h"
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

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
    const double most = 900, left = sched_last() - clock_seconds(),
                 wait = left < most ? left : most;
    struct timespec until;
    if (wait <= 0) return;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += (time_t)wait;
    until.tv_nsec += (long)(1e9 * (wait - floor(wait)));
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    sem_timedwait(sched_stopping(), &until);
}

static void *wait_for_signal(void *deadline)
{
    struct deadline *d = deadline;
    while (!sched_told_to_stop() && clock_seconds() < sched_last() && !d->closed) wait_a_while();
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
    sem_post(sched_stopping());
    pthread_join(d->thread, NULL);
    free(d);
}

#include "sched/idle.h"
#include "sched/link.h"
#include "util/clock.h"
#include "util/mem.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

struct idle {
    void (*call)(void *context, const char *why);
    void *context;
    pthread_t thread;
    pthread_mutex_t guard; /* of all below */
    pthread_cond_t closing;
    bool closed;
    const char *name; /* NULL: no task in hand */
    double seconds;   /* since its last progress */
    double limit;
};

/* Adds the time of a look, in which the process may have been stopped, and says whether it is too
 * much; with the guard held. */
static bool add(struct idle *i, double seconds, char *why, size_t n)
{
    const double most = 2;
    if (!i->name) return false;
    i->seconds += seconds < most ? seconds : most;
    snprintf(why, n, "%s has made no progress for %.0f s", i->name, i->seconds);
    return i->seconds > i->limit;
}

/* Waits about a second, or until the struct is closed; with the guard held. */
static void doze(struct idle *i)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec++;
    if (!i->closed) pthread_cond_timedwait(&i->closing, &i->guard, &until);
}

static void *look(void *idle)
{
    struct idle *i = idle;
    char why[300];
    bool late = false;
    pthread_mutex_lock(&i->guard);
    for (double last = clock_seconds(); !i->closed && !late;) {
        doze(i);
        const double now = clock_seconds();
        late = !i->closed && add(i, now - last, why, sizeof why);
        last = now;
    }
    pthread_mutex_unlock(&i->guard);
    if (late) i->call(i->context, why);
    return NULL;
}

enum status idle_open(void (*call)(void *context, const char *why), void *context,
                      struct idle **out, struct err *e)
{
    enum status st = OK;
    struct idle *i = NULL;
    TRY(mem_zero(&i, 1, sizeof *i, "a watch", e));
    i->call = call;
    i->context = context;
    pthread_mutex_init(&i->guard, NULL);
    pthread_cond_init(&i->closing, NULL);
    ENSURE(pthread_create(&i->thread, NULL, look, i) == 0, ERR_NOMEM,
           "out of memory: no thread that looks for progress");
    *out = i;
    i = NULL;
done:
    free(i);
    return st;
}

void idle_close(struct idle *i)
{
    if (!i) return;
    pthread_mutex_lock(&i->guard);
    i->closed = true;
    pthread_cond_signal(&i->closing);
    pthread_mutex_unlock(&i->guard);
    pthread_join(i->thread, NULL);
    free(i);
}

static void set(struct idle *i, const char *name, double limit)
{
    if (!i) return;
    pthread_mutex_lock(&i->guard);
    i->name = name;
    i->seconds = 0;
    i->limit = limit;
    pthread_mutex_unlock(&i->guard);
}

void idle_begin(struct idle *i, const char *name, double expected)
{
    set(i, name ? name : "a task", link_idle_limit(expected));
}

void idle_note(struct idle *i)
{
    if (!i) return;
    pthread_mutex_lock(&i->guard);
    i->seconds = 0;
    pthread_mutex_unlock(&i->guard);
}

void idle_end(struct idle *i)
{
    set(i, NULL, 0);
}

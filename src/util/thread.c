#include "util/thread.h"
#include <signal.h>

bool thread_start(void *(*run)(void *context), void *context, pthread_t *thread)
{
    enum { STACK = 1024 * 1024 };
    pthread_t own;
    pthread_attr_t attributes;
    sigset_t all, kept;
    sigfillset(&all);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK);
    pthread_sigmask(SIG_SETMASK, &all, &kept);
    const bool started = pthread_create(thread ? thread : &own, &attributes, run, context) == 0;
    pthread_sigmask(SIG_SETMASK, &kept, NULL);
    pthread_attr_destroy(&attributes);
    if (started && !thread) pthread_detach(own);
    return started;
}

pthread_mutex_t *thread_lock(pthread_mutex_t *mutex)
{
    pthread_mutex_lock(mutex);
    return mutex;
}

void thread_unlock(pthread_mutex_t **mutex)
{
    pthread_mutex_unlock(*mutex);
}

/* thread: threads beside those that compute. */
#pragma once
#include "util/err.h"
#include <pthread.h>

/* Starts a thread that runs run(context). It gets no signals, which are for the main thread, and
 * has a small stack, since memory may be scarce. Who wants to join it gets *thread; NULL: nobody
 * does. False: it cannot be started. */
MUST_USE bool thread_start(void *(*run)(void *context), void *context, pthread_t *thread);

/* Lock a mutex, and, for CLEANUP (util/err.h), give it back. */
pthread_mutex_t *thread_lock(pthread_mutex_t *mutex);
void thread_unlock(pthread_mutex_t **mutex);
/* HOLD(&j->guard): this thread has the mutex to the end of the block, whichever way leaves it. */
#define HOLD(mutex)                                                                                \
    CLEANUP(thread_unlock)                                                                         \
    pthread_mutex_t *held_ __attribute__((unused)) = thread_lock(mutex)

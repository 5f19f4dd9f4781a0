/* idle: whether a process that works alone makes progress in its task. Where there is a master, it
 * looks for itself (losses.c). */
#pragma once
#include "util/err.h"

struct idle;

/* Starts a thread that calls idle(context, why) when the task in hand has made no progress for
 * link_idle_limit of running time: once, without holding anything. ERR_NOMEM. */
MUST_USE enum status idle_open(void (*idle)(void *context, const char *why), void *context,
                               struct idle **out, struct err *e);
/* NULL for all: nothing. The thread has ended when this returns. */
void idle_close(struct idle *i);

/* A task begins that should take so many seconds; name is borrowed until it ends. */
void idle_begin(struct idle *i, const char *name, double expected);
/* It has made progress. */
void idle_note(struct idle *i);
void idle_end(struct idle *i);

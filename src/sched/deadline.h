/* deadline: what is done some time after SIGTERM or SIGINT, or after the last moment of a run whose
 * time is limited, whatever the process is busy with: a product of matrices may take minutes, and
 * mpirun kills its ranks after a second. */
#pragma once
#include "util/err.h"

struct deadline;

/* From now on late(context) is called `seconds` after the first of these signals (sched.h) or
 * after that moment (sched_end), on a thread of its own, unless the deadline is closed before.
 * After sched_catch_signals; one at a time in a process. The caller closes *out. ERR_NOMEM: no
 * thread. */
MUST_USE enum status deadline_open(double seconds, void (*late)(void *), void *context,
                                   struct deadline **out, struct err *e);
/* `late` is not called any more; where it is running, this waits for it. NULL: nothing. */
void deadline_close(struct deadline *d);

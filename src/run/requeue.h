/* requeue: `qtraj launch --requeue`: a Slurm job whose run was stopped for lack of time asks to be
 * started again. */
#pragma once
#include "config/sweep.h"
#include "util/err.h"
#include <time.h>

/* How far the results were when the run began. Zero-initialise; requeue_free. */
struct requeue {
    char *journal; /* its path */
    char *states;  /* folder of saved states; NULL: none are saved */
    int64_t records;
    time_t since;
};
/* results, journal: paths of what the run writes. ERR_NOMEM, and of journals. */
MUST_USE enum status requeue_begin(struct requeue *r, const struct sweep *s, const char *results,
                                   const char *journal, struct err *e);
void requeue_free(struct requeue *r);

/* Asks Slurm to start the job again, and says so: if the run has recorded a result or saved a
 * state since requeue_begin, since otherwise the next start would do no better. */
void requeue_ask(const struct requeue *r);

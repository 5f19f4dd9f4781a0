/* run_hand: tells qtraj status, by a file beside the journal (records/hand.h), which visits a run
 * has in hand. Who closes the journal removes it. */
#pragma once
#include "sched/sched.h"
#include "util/json.h"

/* Zero-initialise; run_hand_free. */
struct run_hand {
    json_t *visits; /* as they were written last */
    double epoch;   /* seconds since 1970 when clock_seconds was 0; 0: not yet known */
};
/* Writes them if they have changed. That the file cannot be written is no error: nothing but status
 * needs it. Returns the seconds until it wants to be told again. */
double run_hand_note(struct run_hand *h, const char *journal, const struct sched_progress *p);
void run_hand_free(struct run_hand *h);

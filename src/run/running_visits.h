/* running_visits: tells qtraj status, by a file beside the journal (records/running.h), which
 * visits a run computes. Who closes the journal removes it. */
#pragma once
#include "sched/sched.h"
#include "util/json.h"

/* Zero-initialise; running_visits_free. */
struct running_visits {
    json_t *visits; /* as they were written last */
    double epoch;   /* seconds since 1970 when clock_seconds was 0; 0: not yet known */
};
/* Writes them if they have changed. That the file cannot be written is no error: nothing but status
 * needs it. Returns the seconds until it wants to be called again. */
double running_visits_note(struct running_visits *h, const char *journal,
                           const struct sched_progress *p);
void running_visits_free(struct running_visits *h);

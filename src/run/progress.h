/* progress: how far a run is: one line that is rewritten on a terminal, or a line now and then in a
 * log, and a line for each failure. Prints on stderr. */
#pragma once
#include "records/rows.h"
#include "sched/sched.h"

struct progress_count {
    int64_t total, done, failed;
};

/* Failed records of a visit that say the same. */
struct progress_failure {
    char *of, *which, *message; /* "MODEL CHECKPOINT"; "gptq 3, gptq 4", NULL: nothing to tell */
    double since;               /* clock_seconds */
};

struct progress {
    struct progress_count counts[MEASURES_N]; /* of the records of each measure */
    double start;                             /* clock_seconds */
    bool terminal;
    int64_t n_failures, capacity;
    struct progress_failure *failures; // (n_failures) not printed yet
};
void progress_free(struct progress *p);

/* Starts the clock. total (MEASURES_N): how many of each there are to do. */
void progress_start(struct progress *p, const int64_t *total);
/* Counts what was finished. */
void progress_add(struct progress *p, int measure, int64_t done, int64_t failed);

/* Takes in a failed record; its line follows soon, together with those that say the same.
 * ERR_NOMEM.
 */
MUST_USE enum status progress_fail(struct progress *p, const json_t *record, struct err *e);
/* Prints the failures that have waited long enough. */
void progress_tell_failures(struct progress *p);

/* Prints the line, which stays open on a terminal (log.h). Returns the seconds until the next one
 * is due. */
double progress_print(struct progress *p, const struct sched_progress *now);
/* Prints the last one, without what is left, and all failures. */
void progress_end(struct progress *p);

/* --- a measurement of curvature --- */

struct curvature_progress {
    double most,
        done;        /* products with the Hessian, at most and so far; the gradient is the first */
    double expected; /* seconds of all of them; 0: not known */
    double start, printed;
    bool terminal;
};

/* Starts the clock. */
void curvature_progress_start(struct curvature_progress *p, double most, double expected);
/* Counts work (hvp_watch), and prints if it is time; the line on a terminal stays open (log.h). p:
 * struct curvature_progress. */
void curvature_progress_add(void *p, double products);

/* The line, after so many seconds. */
enum { CURVATURE_PROGRESS = 160 };
void curvature_progress_text(const struct curvature_progress *p, double seconds,
                             char text[CURVATURE_PROGRESS]);

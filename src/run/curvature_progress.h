/* curvature_progress: how far a measurement of curvature is: one line that is rewritten on a
 * terminal, or a line every ten seconds in a log. */
#pragma once
#include <stdbool.h>

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

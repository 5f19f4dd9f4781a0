/* progress: one line that is rewritten on a terminal, or a line now and then in a log. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct progress {
    int64_t cells, done, failed;
    double start, printed;
    bool terminal, dirty;
};
/* Starts the clock for a run of so many cells; prints on stderr. */
void progress_start(struct progress *p, int64_t cells);
/* Counts cells that were finished. */
void progress_add(struct progress *p, int64_t done, int64_t failed);
/* Prints if there is news and some seconds have passed; last: in any case, and ends the line. */
void progress_print(struct progress *p, bool last);

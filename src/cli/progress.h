/* progress: one line that renews itself on a terminal, plain lines now and then in a log. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct progress {
    int64_t cells, done, failed;
    double start, printed;
    bool terminal, dirty;
};
/* On rank 0, to stderr. */
void progress_start(struct progress *p, int64_t cells);
void progress_add(struct progress *p, int64_t done, int64_t failed);
/* Prints when it is time to; last: the final state, and the line's end. */
void progress_print(struct progress *p, bool last);

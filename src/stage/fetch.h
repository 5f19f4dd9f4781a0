/* fetch: one run of the command that fetches a checkpoint. */
#pragma once
#include "util/err.h"
#include <sys/types.h>

struct fetch {
    pid_t pid; /* 0: none */
    double start;
};

/* Starts the command (NULL-terminated): its output is appended to the file `log`, and it can read
 * nothing. While a command started by an earlier process still writes to the log, f->pid stays 0.
 * ERR_IO: the log cannot be written, no process. */
MUST_USE enum status fetch_start(struct fetch *f, char *const *argv, const char *log,
                                 struct err *e);
/* Whether it has ended; then *fault is "" after exit code 0, else how it ended. */
bool fetch_ended(struct fetch *f, char fault[64]);
/* Ends it and what it has started, and waits for it. */
void fetch_stop(struct fetch *f);

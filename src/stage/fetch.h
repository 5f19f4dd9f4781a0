/* fetch: one run of the command that fetches a checkpoint. */
#pragma once
#include "util/json.h"
#include <sys/types.h>

/* Zero-initialise. */
struct fetch {
    pid_t pid; /* 0: none */
    int line;  /* when it is closed, as it is if this process dies, the command and what it has
                  started are ended: by SIGTERM, after five seconds by SIGKILL */
};

/* Starts the command (a list of texts): it is without input, and what it prints is appended to the
 * file `log`. While that of an earlier process still runs, f->pid stays 0. ERR_IO: the log cannot
 * be written, no process. */
MUST_USE enum status fetch_start(struct fetch *f, const json_t *command, const char *log,
                                 struct err *e);
/* Whether a command still runs that was started with this log, by whichever process. */
bool fetch_runs(const char *log);
/* Whether it has ended; then how is "" after exit code 0, else how it ended. */
bool fetch_ended(struct fetch *f, char how[64]);
/* Ends it, and waits for it, ten seconds at most. */
void fetch_stop(struct fetch *f);

/* holder: the process that holds a lock: what a lock says of it, and whether it is gone. */
#pragma once
#include "util/json.h"

/* This process: {"host", "pid", "pid_namespace", "start" (clock ticks from boot to its start),
 * "boot_id", "utc", "token" (random, as no other lock's)}, and in a Slurm job {"slurm_cluster",
 * "slurm_job", "slurm_restarts"}. The caller decrefs; NULL: out of memory. */
json_t *holder_self(void);

/* Of what a lock says, NULL if it is not readable: seconds after the last renewal at which it
 * expires; and, for people, "process 12 on host HOST since UTC" in out (size bytes), which it
 * returns. */
double holder_lease(const json_t *holder);
const char *holder_describe(const json_t *holder, char *out, size_t size);

enum holder_state {
    HOLDER_RUNS,   /* on this machine, in this namespace of process ids: it is alive */
    HOLDER_GONE,   /* that is certain */
    HOLDER_UNKNOWN /* on another machine, in another container, or of a lock that is not readable */
};
/* age: seconds since it renewed its lock. */
enum holder_state holder_look(const json_t *holder, const json_t *self, double age);

/* Of one that runs: whether it has begun to exit. Freeing a large memory takes a while. */
bool holder_is_ending(const json_t *holder);

/* Whether Slurm says that the job it ran in is over: scontrol is asked (at most 5 seconds), unless
 * this process is a later start of the same job. False where nothing is known. */
bool holder_job_is_over(const json_t *holder, const json_t *self);

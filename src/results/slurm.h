/* slurm: what the batch system says of a job. */
#pragma once
#include <stdbool.h>

/* Whether this start of the job (restarts: how often it had been requeued before) is over: ended,
 * waiting or running again after a requeue, or so long gone that Slurm does not know it. Runs
 * `scontrol -o show job JOB` for at most 5 seconds; false if there is no scontrol, or no answer. */
bool slurm_job_is_over(const char *job, long restarts);

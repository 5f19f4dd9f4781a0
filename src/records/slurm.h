/* slurm: what the batch system says of a job. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

/* out (size bytes) = the value of " KEY=VALUE " (key: " KEY=") in a line of scontrol; "" if it is
 * not there. */
void slurm_value(const char *line, const char *key, char *out, size_t size);

/* Whether this start of the job (restarts: how often it had been requeued before) is over: ended,
 * waiting or running again after a requeue, or so long gone that Slurm does not know it. Runs
 * `scontrol -o show job JOB` for at most 5 seconds; false if there is no scontrol, or no answer. */
bool slurm_job_is_over(const char *job, long restarts);

/* *when = the Unix time at which the job of this process ends (SLURM_JOB_END_TIME, else what
 * `scontrol -o show job` says); false: it is in no job, or in one without an end. */
bool slurm_job_ends(double *when);

/* Has the job of this process requeued (`scontrol requeue`), upon which Slurm ends its processes.
 * False: it is in no job, or Slurm refuses; why (size bytes): what it says. */
bool slurm_requeue(char *why, size_t size);

/* out (size bytes) = the start of what the command prints on both streams. False: it does not
 * exist, or does not end in so many seconds. */
bool slurm_ask(const char *const command[], const char *seconds, char *out, size_t size);

/* slurm: what the batch system says of a job. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

/* The largest index of an array's element (`scontrol show config`); 0: Slurm does not say. */
int64_t slurm_array_most(void);

/* Whether the report's Python is found: by `script`, slurm/python.sh; why (size bytes) = what it
 * says. */
bool slurm_python_found(const char *script, char *why, size_t size);
/* Whether sbatch would take a job of one node with this time (as --time), partition and account
 * (NULL: none is named); why (size bytes): what it says. */
bool slurm_accepts(const char *time, const char *partition, const char *account, const char *script,
                   char *why, size_t size);

/* The cores and the memory (bytes) of the smallest node of a partition (NULL: of all), as `sinfo`
 * says; false: it does not say. */
bool slurm_smallest_node(const char *partition, int64_t *cores, int64_t *memory);

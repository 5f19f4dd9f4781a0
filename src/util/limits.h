/* limits: how much memory and how many cores this process really has.
 *
 * Cgroups (v2 and v1, every level above the process), Slurm's environment, resource limits and the
 * affinity mask come before the machine's totals: on a shared node the totals are somebody else's.
 * What holds for a whole job on a node is then shared out among its ranks there.
 */
#pragma once
#include "util/err.h"
#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

enum { LIMITS_CPUS = 4096, LIMITS_WORD = 64, LIMITS_FROM = 256 };

/* A set of CPUs as the kernel numbers them. */
struct cpu_set {
    uint64_t bits[LIMITS_CPUS / LIMITS_WORD];
};
int64_t cpu_set_count(const struct cpu_set *s);

struct limits {
    /* Of all processes of this job on this node together, in bytes and CPUs, and which file or
     * variable says so. */
    int64_t memory, cores;
    char memory_from[LIMITS_FROM], cores_from[LIMITS_FROM];
    int64_t machine_memory, machine_cores;
    int64_t available;      /* MemAvailable now: other people's processes count here */
    int64_t process_memory; /* RLIMIT_AS, INT64_MAX: none */
    struct cpu_set cpus;    /* the CPUs that this process may run on */
};

/* Reads /proc, /sys and the environment; root is put before the paths ("" but for tests). Only
 * ERR_IO: /proc/meminfo or /proc/self/status cannot be read. Limits that cannot be understood are
 * left out. */
MUST_USE enum status limits_read(const char *root, struct limits *out, struct err *e);

/* The part of so many bytes that may be planned with: nine tenths, the rest is for what no plan
 * counts. */
int64_t limits_usable(int64_t bytes);

/* A rank's part of its node. */
struct limits_share {
    int64_t memory;  /* bytes: an equal part for every working rank */
    int64_t cores;   /* threads to start; at least 1 */
    int64_t ranks;   /* of the communicator on this node */
    int64_t workers; /* of them those that work */
    bool bound;      /* no other working rank of the node may run on this rank's CPUs */
};

/* works: this rank computes; others (a master that only waits) get no part. CPUs in the masks of
 * several working ranks are shared out evenly. Collective on comm. ERR_MPI. */
MUST_USE enum status limits_share(MPI_Comm comm, const struct limits *l, bool works,
                                  struct limits_share *out, struct err *e);

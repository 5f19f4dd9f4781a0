/* limits: how much memory and how many cores this process really has.
 *
 * The machine's totals are only an upper bound: limits of cgroups (v1 and v2, at every level above
 * the process), of Slurm, resource limits and the affinity mask are applied as well. What a job may
 * use of a node is then divided among its ranks there. */
#pragma once
#include "util/err.h"
#include <mpi.h>

enum { LIMITS_CPUS = 4096, LIMITS_WORD = 64, LIMITS_FROM = 256 };

/* A set of CPUs as the kernel numbers them. */
struct cpu_set {
    uint64_t bits[LIMITS_CPUS / LIMITS_WORD];
};
/* Number of CPUs in the set. */
int64_t cpu_set_count(const struct cpu_set *s);

struct limits {
    /* Limits of all processes of this job on this node together, in bytes and CPUs, and the file or
     * variable that each comes from. */
    int64_t memory, cores;
    char memory_from[LIMITS_FROM], cores_from[LIMITS_FROM];
    int64_t machine_memory, machine_cores;
    int64_t available;      /* MemAvailable, which the processes of other users reduce */
    int64_t process_memory; /* RLIMIT_AS, INT64_MAX: none */
    struct cpu_set cpus;    /* the CPUs that this process may run on */
};

/* Reads /proc, /sys and the environment; root is put before the paths ("" except in tests). Limits
 * that cannot be parsed are ignored. ERR_IO: /proc/meminfo or /proc/self/status cannot be read. */
MUST_USE enum status limits_read(const char *root, struct limits *out, struct err *e);

/* The part of a limit that plans may use: nine tenths; the rest is for what plans do not count. */
int64_t limits_usable(int64_t bytes);

/* A rank's share of its node. */
struct limits_share {
    int64_t memory;  /* bytes: equal for all working ranks */
    int64_t cores;   /* threads to start, at least 1 */
    int64_t ranks;   /* of the communicator on this node */
    int64_t workers; /* those of them that work */
    bool bound;      /* no other working rank of the node may run on this rank's CPUs */
};

/* Bytes of a share as a text. */
enum { LIMITS_SHARE_TEXT = 128 };

/* works: this rank computes; one that only waits (the master) gets no share. CPUs in the masks of
 * several working ranks are divided evenly. Collective on comm. ERR_MPI, ERR_NOMEM. */
MUST_USE enum status limits_share(MPI_Comm comm, const struct limits *l, bool works,
                                  struct limits_share *out, struct err *e);

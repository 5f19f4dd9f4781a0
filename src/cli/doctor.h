/* doctor: what a run would meet on this machine, and what would slow or break it. */
#pragma once
#include "linalg/rates.h"
#include "util/json.h"
#include "util/limits.h"
#include <mpi.h>

/* A check writes findings ("cores": 64) under its heading, and a warning with a remedy for each
 * thing that is not well. */
struct doctor {
    json_t *findings; /* heading → {name: value} */
    json_t *warnings; /* [{about, text, remedy}] */
    const char *heading;
};

/* What the ranks found out about themselves, on rank 0. Of several ranks the first one, the master,
 * does no work: it counts in none of the figures about work. */
struct doctor_ranks {
    int n;
    int64_t workers, nodes;
    int64_t node_workers;      /* most on a node */
    struct limits limits;      /* of rank 0's node */
    struct limits_share share; /* of rank 0 */
    int64_t threads_most;      /* of a worker */
    int64_t threads_missing;   /* that OpenMP does not start, most of a worker */
    double load;               /* threads for each core, on the worst node */
    int64_t cores_used;        /* CPUs of rank 0's node that some worker may run on */
    bool all_bound;
    int64_t memory_least;      /* of a worker, bytes */
    struct linalg_rates rates; /* of all workers together */
};

/* Under the heading of now; the value is taken over. */
void doctor_note(struct doctor *d, const char *name, json_t *value);
void doctor_warn(struct doctor *d, const char *remedy, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Collective on world; fills *out on rank 0. */
MUST_USE enum status doctor_ask_ranks(MPI_Comm world, struct doctor_ranks *out, struct err *e);

/* On rank 0. */
void doctor_check_versions(struct doctor *d);
MUST_USE enum status doctor_check_blas(struct doctor *d, const struct doctor_ranks *r,
                                       struct err *e);
void doctor_check_ranks(struct doctor *d, const struct doctor_ranks *r);
void doctor_check_memory(struct doctor *d, const struct doctor_ranks *r);
void doctor_check_limits(struct doctor *d);
void doctor_check_locale(struct doctor *d);
/* results: the folder that journal and cube will lie in; scratch: as run.scratch, NULL for auto. */
void doctor_check_disks(struct doctor *d, const char *results, const char *scratch);

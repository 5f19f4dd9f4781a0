/* doctor: checks what on this machine would slow down or break a run. */
#pragma once
#include "math/rates.h"
#include "util/json.h"
#include "util/limits.h"
#include <mpi.h>

/* A check adds findings ("cores": 64) under its heading, and a warning with a remedy for each
 * problem. */
struct doctor {
    json_t *findings; /* heading → {name: value} */
    json_t *warnings; /* [{about, text, remedy}] */
    const char *heading;
};

/* What rank 0 knows of all ranks. Of several ranks the first, the master, does not work: figures
 * about work leave it out. */
struct doctor_ranks {
    int n;
    double met, limit; /* seconds from the start until all had met; and those they have */
    int64_t workers, nodes;
    int64_t node_workers;      /* maximum on a node */
    struct limits limits;      /* of rank 0's node */
    struct limits_share share; /* of rank 0 */
    int64_t threads_most;      /* maximum of a worker */
    int64_t threads_missing;   /* that OpenMP does not start: maximum of a worker */
    double load;               /* threads per core, maximum over nodes */
    int64_t cores_used;        /* CPUs of rank 0's node that some worker may run on */
    bool all_bound;
    int64_t memory_least;      /* minimum of a worker, bytes */
    struct linalg_rates rates; /* of all workers together */
    int64_t bf16_workers;      /* workers with instructions for products in bf16 */
    int64_t auto_workers;      /* workers on which AUTO takes bf16 */
};

/* Adds a finding (value is taken over) or a warning under the current heading. */
void doctor_note(struct doctor *d, const char *name, json_t *value);
void doctor_warn(struct doctor *d, const char *remedy, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Fills *out on rank 0. Collective on world. ERR_IO: limits cannot be read; ERR_MPI, ERR_NOMEM. */
MUST_USE enum status doctor_ask_ranks(MPI_Comm world, struct doctor_ranks *out, struct err *e);

/* The checks, on rank 0; each sets its heading. */
void doctor_check_versions(struct doctor *d);
MUST_USE enum status doctor_check_blas(struct doctor *d, const struct doctor_ranks *r,
                                       struct err *e);
void doctor_check_products(struct doctor *d, const struct doctor_ranks *r);
void doctor_check_ranks(struct doctor *d, const struct doctor_ranks *r);
void doctor_check_memory(struct doctor *d, const struct doctor_ranks *r);
void doctor_check_limits(struct doctor *d);
void doctor_check_locale(struct doctor *d);
/* results: the folder that journal and cube will lie in; scratch: as run.scratch, NULL for auto. */
void doctor_check_disks(struct doctor *d, const char *results, const char *scratch);

/* curvature: what a visit measures of the curvature of its checkpoint's full-precision loss. */
#pragma once
#include "curvature/measure.h"
#include "visit/internal.h"

/* A checkpoint before, on the chain of a warm start. */
struct curvature_step {
    char *path, *key;
};

struct curvature_task {
    struct curvature_options options;
    struct data_options data;
    int64_t seed;
    char *key; /* of the record */
    /* Warm start (warm.h): folder of the vectors, NULL: none; the checkpoints before, in their
     * order; whether one follows. */
    char *vectors;
    int64_t n_before;
    struct curvature_step *before; // (n_before)
    bool followed;
};
void curvature_task_free(struct curvature_task *t); /* and the struct itself; NULL: nothing */
/* A new reference, NULL when out of memory; and back, *out owned by the caller. */
json_t *curvature_task_to_json(const struct curvature_task *t);
MUST_USE enum status curvature_task_from_json(const json_t *json, struct curvature_task **out,
                                              struct err *e);

/* The loss of one model on a group of ranks, the sequences dealt out to them: each rank
 * differentiates its own, and gradient and products are summed over the group; vectors are whole on
 * every rank. Zero-initialise, then fill in the first four. */
struct measurement {
    const struct model *model;
    const struct sequences *sequences;
    MPI_Comm group;
    const struct visit_hooks *hooks; /* asked before each product whether to stop */
    int64_t tokens;                  /* scored, of all ranks */
    struct subject subject;
    /* of measurement.c */
    int rank, size;
    struct sequences mine;
    struct hvp *h;
    struct subject own;
    bool left; /* the ranks have failed together */
};
/* Collective on group, like all that is done with the subject. As hvp_open; ERR_USAGE: no sequence
 * has two tokens. Close it whatever is returned. */
MUST_USE enum status measurement_open(struct measurement *m, enum hvp_subset subset, struct err *e);
void measurement_close(struct measurement *m);
/* x (n of the subject) on all ranks = rank 0's. Collective on group. */
void measurement_give_out(const struct measurement *m, float *x);
/* curvature_measure, on all ranks together: every rank gets the same out. ERR_STOPPED: the hooks
 * said so. out borrows names from m. */
MUST_USE enum status measurement_run(struct measurement *m, const struct curvature_request *request,
                                     struct curvature *out, struct err *e);

/* Measures what the visit's task asks for and emits the record; failure: of the visit as a whole,
 * then that is the record's too. What goes wrong makes a failed record, but for ERR_STOPPED,
 * ERR_FULL, ERR_MPI. Collective on group. */
MUST_USE enum status visit_curvature(const struct visit_outcome *o, MPI_Comm group,
                                     struct visit_cache *cache, const struct visit_hooks *hooks,
                                     const struct err *failure, struct err *e);

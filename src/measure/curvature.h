/* curvature: what a visit measures of the curvature of its checkpoint's full-precision loss. */
#pragma once
#include "group/provenance.h"
#include "measure/measurement.h"

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

/* Measures what the visit's task asks for and emits the record; failure: of the visit as a whole,
 * then that is the record's too. What goes wrong makes a failed record, but for ERR_STOPPED,
 * ERR_FULL, ERR_MPI. model: NULL
 * only when failure says why. Collective on group. */
MUST_USE enum status visit_curvature(const struct provenance *o, const struct model *model,
                                     MPI_Comm group, struct visit_cache *cache,
                                     const struct visit_hooks *hooks, const struct err *failure,
                                     struct err *e);

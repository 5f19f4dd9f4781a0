/* warm: the task of measuring curvature, and its warm start: the eigenvector of the checkpoint
 * before, from which a sharpness may start (docs/decisions/0011-warm-start.md). Vectors lie as
 * files beside the results, named by all that they depend on: the keys and weights of the
 * checkpoint and of all before it, and the fingerprint. One that is not there is computed again, so
 * that numbers do not depend on what is. */
#pragma once
#include "measure/measurement.h"

/* A checkpoint before, on the chain of a warm start. */
struct curvature_step {
    struct weights weights;
    char *key; /* of its record */
};

struct curvature_task {
    struct curvature_options options;
    struct data_options data;
    int64_t seed;
    char *key; /* of the record */
    /* Warm start: folder of the vectors, NULL: none; the checkpoints before, in their order;
     * whether one follows. */
    char *vectors;
    int64_t n_before;
    struct curvature_step *before; // (n_before)
    bool followed;
};

/* Digest of the weights of n >= 1 checkpoints in their order. ERR_IO, ERR_FORMAT: one is not there
 * or broken. */
MUST_USE enum status warm_chain(const struct weights *const *of, int64_t n, char out[HASH_HEX],
                                struct err *e);

struct warm {
    const struct curvature_task *task;
    const struct weights *weights; /* of the checkpoint itself */
    const char *fingerprint;
    char (*chain)[HASH_HEX]; // (n_before + 1) of each checkpoint and all before it
};
/* ERR_IO, ERR_FORMAT as warm_chain. Close it whatever is returned. */
MUST_USE enum status warm_open(struct warm *w, const struct curvature_task *task,
                               const struct weights *weights, const char *fingerprint,
                               struct err *e);
void warm_close(struct warm *w);

/* *start (this rank's part, owned by the caller) = the vector of the checkpoint before, NULL for
 * the first. m: an open measurement of the checkpoint itself, also for its sequences, group and
 * hooks. Collective on the group. As measurement_run; ERR_SHAPE: checkpoints of unequal shapes. */
MUST_USE enum status warm_start(const struct warm *w, struct measurement *m, float **start,
                                struct err *e);
/* Stores the vector of checkpoint i of the chain (this rank's part; n_before: the checkpoint
 * itself) for the next checkpoint, if there is one (else it may be NULL), and removes the file of
 * the previous one. Collective on the group. ERR_IO, ERR_FULL. */
MUST_USE enum status warm_keep(const struct warm *w, int64_t i, struct measurement *m,
                               const float *vector, struct err *e);

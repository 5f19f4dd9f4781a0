/* warm: the setup of measuring curvature, and its warm start from the eigenvector of the previous
 * checkpoint (docs/decisions/0011-warm-start.md). Vectors are files next to the results, named by a
 * digest of all that they depend on: the keys and weights of the checkpoint and of all earlier
 * ones, and the fingerprint. A missing vector is computed again, so that results do not depend on
 * which files exist. */
#pragma once
#include "measures/measurement.h"

/* An earlier checkpoint in the chain of a warm start. */
struct curvature_step {
    struct weights weights;
    char *key; /* of its record */
};

struct curvature_setup {
    struct curvature_options options;
    struct data_options data;
    int64_t seed;
    /* Warm start: folder of the vectors (NULL: no warm start); all earlier checkpoints in
     * trajectory order; whether a later checkpoint needs this one's vector. */
    char *vectors;
    int64_t n_before;
    struct curvature_step *before; // (n_before)
    bool followed;
    char *parts; /* of its record, if finished ones have some of them (record_parts.h); NULL: none
                    has */
};

/* out = digest of the weights of n >= 1 checkpoints, in order. Local. ERR_IO, ERR_FORMAT: a
 * checkpoint is missing or damaged. */
MUST_USE enum status warm_chain(const struct weights *const *of, int64_t n, char out[HASH_HEX],
                                struct err *e);

struct warm {
    const struct curvature_setup *setup;
    const struct weights *weights; /* of the checkpoint itself */
    const char *key;               /* of its record */
    const char *fingerprint;
    char (*chain)[HASH_HEX]; // (n_before + 1) digest of each checkpoint and all earlier ones
};
/* Computes the digests, for the checkpoint of the visit; borrows all arguments. Local. Call
 * warm_close even after a failure. ERR_IO, ERR_FORMAT as warm_chain. */
MUST_USE enum status warm_open(struct warm *w, const struct curvature_setup *setup,
                               const struct visit *visit, const char *fingerprint, struct err *e);
void warm_close(struct warm *w);

/* *start (this rank's part, owned by the caller) = the vector of the previous checkpoint, read or
 * computed; NULL for the first checkpoint. m: an open measurement of the checkpoint itself, whose
 * sequences, group and hooks are used. Collective on the group. Errors of measurement_run;
 * ERR_SHAPE: the checkpoints' shapes differ. */
MUST_USE enum status warm_start(const struct warm *w, struct measurement *m, float **start,
                                struct err *e);
/* Stores the vector (this rank's part) of checkpoint i of the chain (n_before: the checkpoint
 * itself) for the next checkpoint and removes the file of the previous one. Does nothing if there
 * is no next checkpoint; vector may then be NULL. Collective on the group. ERR_IO, ERR_FULL. */
MUST_USE enum status warm_keep(const struct warm *w, int64_t i, struct measurement *m,
                               const float *vector, struct err *e);

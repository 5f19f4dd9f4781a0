/* curvature: what a visit measures of the curvature of its checkpoint's full-precision loss. */
#pragma once
#include "group/part.h"
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
    /* Warm start (warm.h): folder of the vectors, NULL: none; the checkpoints before, in their
     * order; whether one follows. */
    char *vectors;
    int64_t n_before;
    struct curvature_step *before; // (n_before)
    bool followed;
};

extern const struct part curvature_part;

/* The numbers that the options ask for, under the names of the cube. */
void curvature_values(json_t *values, const struct curvature_options *o, const struct curvature *c);

/* observe: what the full-precision model computes of the evaluation sequences, for measures that
 * look at it (struct measure.observe) while the blocks run. */
#pragma once
#include "engine/inputs.h"

/* Where in a block: a stage (its linears' input), or one of these. */
enum { SITE_KEYS = STAGE_N, SITE_VALUES, SITE_RESIDUAL, SITES_N };

struct observed {
    int64_t block;
    const struct visit_inputs *inputs; /* of the whole visit */
    int site;
    /* Of token t `heads` runs of so many columns, at x + t * pitch + h * stride. */
    const float *x;
    int64_t pitch, heads, stride, columns;
    const struct sequences *s; /* whose tokens they are */
    int64_t first;             /* number of its first sequence among those of the visit */
};

/* curvature: what a visit measures of the curvature of its checkpoint's full-precision loss. */
#pragma once
#include "measure/warm.h"

extern const struct part curvature_part;

/* The numbers that the options ask for, under the names of the cube. */
void curvature_values(json_t *values, const struct curvature_options *o, const struct curvature *c);

/* curvature: the part of a visit that measures the curvature of the full-precision loss. */
#pragma once
#include "measures/warm.h"

/* Adds the numbers that the options request to values, under the cube's names. */
void curvature_values(json_t *values, const struct curvature_options *o, const struct curvature *c);

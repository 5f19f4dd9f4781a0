/* grid: the uniform integer grid of IST-DASLab's quant.py (class Quantizer), for a tile of rows.
 *
 * Codes 0..maxq = 2^bits - 1; the value of code c is scale * (c - zero). Zero is always on the
 * grid. Divisions are true divisions and ties go to the even integer: a weight at the end of a
 * symmetric range is an exact tie, and a reciprocal would send it to another code. */
#pragma once
#include "quant/tile.h"

/* One group's scale and zero for each row of a tile. */
struct grid {
    float scale[TILE_ROWS], zero[TILE_ROWS];
};

/* Range of n columns t (n, TILE_ROWS). Symmetric: the range is ± the greatest magnitude and zero is
 * 2^(bits-1), but a row without negative weights keeps the range [0, max] for its scale while zero
 * stays: its upper half is clipped. That is what the reference does, and so do the checkpoints it
 * made. A row of zeros gets the range ±1. */
void grid_fit(struct grid *g, const float *t, int64_t n, int64_t bits, bool symmetric);

/* q = the nearest values on the grid for one column x of a tile. */
void grid_round(float *q, const float *x, const struct grid *g, int64_t bits);

/* grid: the uniform integer grid of IST-DASLab's quant.py (class Quantizer), for a tile of rows.
 *
 * Codes 0..maxq = 2^bits - 1; the value of code c is scale * (c - zero). Zero is always on the
 * grid. Divisions are true divisions and ties go to the even integer: a weight at the end of a
 * symmetric range is an exact tie, and a reciprocal would send it to another code. */
#pragma once
#include "coding/grid_kind.h"

/* Ranges that a search tries. */
enum { GRID_RANGES = 80 };

/* Sets the grid of each row from n columns t (n, TILE_ROWS). Symmetric: the range is ± the largest
 * magnitude and zero is 2^(bits-1), but for a row without negative weights the scale is that of the
 * range [0, max] and zero is the same, so that its upper half is clipped, as in the reference
 * implementation and the checkpoints made with it. A row of zeros gets the range ±1. With a search,
 * the range is shrunk by 0 to 79 hundredths, to the minimum of the sum of |rounded - x|^search over
 * the group. */
void grid_fit(struct grid *g, const float *t, int64_t n, struct grid_kind kind);

/* q = the nearest values on the grid for one column x of a tile. */
void grid_round(float *q, const float *x, const struct grid *g, int64_t bits);

/* The same with the weights of a stored checkpoint: the same codes times the stored scales.
 * Packages (GPTQModel: pack) choose codes with f32 scales and round the scales when they write. */
void grid_round_stored(float *q, const float *x, const struct grid *g, int64_t bits);

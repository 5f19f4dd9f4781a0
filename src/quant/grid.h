/* grid: the uniform integer grid of IST-DASLab's quant.py (class Quantizer), for a tile of rows.
 *
 * Codes 0..maxq = 2^bits - 1; the value of code c is scale * (c - zero). Zero is always on the
 * grid. Divisions are true divisions and ties go to the even integer: a weight at the end of a
 * symmetric range is an exact tie, and a reciprocal would send it to another code. */
#pragma once
#include "quant/grid_kind.h"

/* Sets the grid of each row from n columns t (n, TILE_ROWS). Symmetric: the range is ± the largest
 * magnitude and zero is 2^(bits-1), but for a row without negative weights the scale is that of the
 * range [0, max] and zero is the same, so that its upper half is clipped, as in the reference
 * implementation and the checkpoints made with it. A row of zeros gets the range ±1. With a search,
 * the range is shrunk by 0 to 79 hundredths, to the minimum of the sum of |rounded - x|^search over
 * the group. */
void grid_fit(struct grid *g, const float *t, int64_t n, struct grid_kind kind);

/* The kind of grid that the options request at a bit-width. */
static inline struct grid_kind grid_kind_of(int64_t bits, const struct quant_options *o)
{
    return (struct grid_kind){.bits = bits,
                              .symmetric = o->symmetric,
                              .search = o->range_search,
                              .dtype = o->scale_dtype,
                              .codes = o->codes};
}

/* quant_method.describe_grids for methods whose grids are those of grid_kind_of. */
MUST_USE enum status grid_describe(const struct quant_options *o, struct quant_grid_form *out,
                                   struct err *e);
/* Copies the grid of a tile that starts at `row` to the job's grids as that of the group; does
 * nothing if the job requests none. */
void grid_note(const struct quant_job *job, int64_t row, int64_t group, const struct grid *g);

/* Stored bits per weight: codes, scales of 16 bits, zeros with as many bits as the codes. */
double grid_bits(const struct quant_job *job);
/* FLOPs of rounding, including the search of ranges, for plans. */
double grid_flop(int64_t rows, int64_t cols, const struct quant_options *o);

/* q = the nearest values on the grid for one column x of a tile. */
void grid_round(float *q, const float *x, const struct grid *g, int64_t bits);

/* The same with the weights of a stored checkpoint: the same codes times the stored scales.
 * Packages (GPTQModel: pack) choose codes with f32 scales and round the scales when they write. */
void grid_round_stored(float *q, const float *x, const struct grid *g, int64_t bits);

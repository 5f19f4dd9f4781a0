/* grid: the uniform integer grid of IST-DASLab's quant.py (class Quantizer), for a tile of rows.
 *
 * Codes 0..maxq = 2^bits - 1; the value of code c is scale * (c - zero). Zero is always on the
 * grid. Divisions are true divisions and ties go to the even integer: a weight at the end of a
 * symmetric range is an exact tie, and a reciprocal would send it to another code. */
#pragma once
#include "quant/quant.h"
#include "quant/tile.h"

/* One group's scale and zero for each row of a tile. */
struct grid {
    float scale[TILE_ROWS], zero[TILE_ROWS];
    float stored[TILE_ROWS]; /* the scale as it is stored */
};

/* How a grid is found. */
struct grid_kind {
    int64_t bits;
    bool symmetric;
    double search; /* struct quant_options: range_search */
    int dtype;     /* enum scale_dtype of what is stored */
};

/* Range of n columns t (n, TILE_ROWS). Symmetric: the range is ± the greatest magnitude and zero is
 * 2^(bits-1), but a row without negative weights keeps the range [0, max] for its scale while zero
 * stays: its upper half is clipped. That is what the reference does, and so do the checkpoints it
 * made. A row of zeros gets the range ±1.
 * With a search, the range is shrunk by up to 79 hundredths (in steps of one) to where the sum of
 * |rounded - x|^search over the group is least. */
void grid_fit(struct grid *g, const float *t, int64_t n, struct grid_kind kind);

/* The kind of grid that the options ask for at a width. */
static inline struct grid_kind grid_kind_of(int64_t bits, const struct quant_options *o)
{
    return (struct grid_kind){bits, o->symmetric, o->range_search, o->scale_dtype};
}

/* Columns of a group: those that options ask for, of a row at most. */
int64_t grid_group(const struct quant_options *o, int64_t cols);
/* Bits of a weight: codes, scales of 16 bits, zeros of as many bits as the codes. */
double grid_bits(const struct quant_job *job);
/* FLOPs of rounding, ranges that are searched included, for plans. */
double grid_flop(int64_t rows, int64_t cols, const struct quant_options *o);

/* q = the nearest values on the grid for one column x of a tile. */
void grid_round(float *q, const float *x, const struct grid *g, int64_t bits);

/* What a stored checkpoint gives back for them: the same codes times the stored scales. Packages
 * (GPTQModel: pack) find codes in f32 and round the scales when they write. */
void grid_round_stored(float *q, const float *x, const struct grid *g, int64_t bits);

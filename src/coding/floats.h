/* floats: the numbers of few bits that stand for weights in a tile of rows, besides the uniform
 * integer grid (grid.h): the option `codes` of rtn and gptq.
 *
 * A weight x with the scale s of its group becomes s * c, c the code nearest to x / s. Scales:
 * the largest magnitude over the largest code (fp), that as a power of two (mx: OCP Microscaling
 * Formats v1.0, section 6.3), as an 8-bit float times a number of the matrix (nv: NVIDIA's NVFP4;
 * nvfp4_46 chooses for each group whether its largest weight becomes the code 6 or 4, arXiv
 * 2512.02010), or the mean magnitude (ternary: BitNet b1.58, arXiv 2402.17764; sign). */
#pragma once
#include "coding/grid_kind.h"

/* How a group's scale follows from its magnitudes. */
enum float_scale { FLOAT_LARGEST, FLOAT_POWER, FLOAT_TWO_LEVELS, FLOAT_MEAN };

/* A float has `mantissa` bits below its first, the step 2^(least - mantissa) below 2^least, and
 * magnitudes up to `most`. Numbers of one bit (mantissa -1) are ±1. */
struct float_format {
    const char *name;
    int scale;           /* enum float_scale */
    int64_t bits, group; /* group: the only size; 0: any */
    int mantissa, least;
    float most;
};
/* Of enum quant_codes; integers have 0 bits. */
const struct float_format *float_format_of(int codes);

/* The nearest number to x, ties to even: `mantissa` bits below the first, steps below `least` as at
 * it, magnitudes up to `most`. */
float float_nearest(float x, int mantissa, float least, float most);

/* Sets scale and stored of each row from n columns t (n, TILE_ROWS). kind.shared: the number that
 * the rows share, in place of the columns' own: the largest or mean magnitude of the group or, for
 * FLOAT_TWO_LEVELS, the largest of the matrix. */
void floats_fit(struct grid *g, const float *t, int64_t n, const struct grid_kind *kind);

/* q = scale times the nearest codes, ties to even, for one column x of a tile. */
void floats_round(float *q, const float *x, const struct grid *g, const float *scale);

/* grid_kind: the grid of a group in a tile of rows, and what chooses it. grid.h fits grids of
 * integers, floats.h those of other codes. */
#pragma once
#include "coding/tile.h"

/* The numbers that stand for weights (floats.h). */
enum quant_codes {
    CODES_INTEGER,
    CODES_FP8_E5M2,
    CODES_FP8_E4M3,
    CODES_FP6_E3M2,
    CODES_FP6_E2M3,
    CODES_FP4_E2M1,
    CODES_MXFP8_E5M2,
    CODES_MXFP8_E4M3,
    CODES_MXFP6_E3M2,
    CODES_MXFP6_E2M3,
    CODES_MXFP4,
    CODES_NVFP4,
    CODES_NVFP4_46,
    CODES_TERNARY,
    CODES_SIGN
};

/* Type of the stored scales. Later layers are calibrated on the stored weights; packed: on weights
 * whose scales are still f32, because scales are rounded after the last layer. */
enum scale_dtype { SCALE_F32, SCALE_F16, SCALE_F16_PACKED };

/* One group's scale and zero for each row of a tile. */
struct grid {
    float scale[TILE_ROWS], zero[TILE_ROWS];
    float stored[TILE_ROWS]; /* the scale rounded for storage */
    int codes;               /* enum quant_codes; all but integers have zero 0 (floats.h) */
};

/* Which range of weights the codes span. AWQ's packages and GPTAQ's differ from GPTQ in two points:
 * a symmetric grid has the scale max / (2^(bits-1) - 1), so that the largest magnitude of either
 * sign is on the grid, and a range below 1e-5 counts as 1e-5 (AWQ: also without symmetry). AWQ's do
 * not extend the range to zero, so that a group of weights of one sign loses its values; this grid
 * extends it, as GPTQ does. */
enum grid_form { GRID_GPTQ, GRID_AWQ };

/* How a grid is chosen. */
struct grid_kind {
    int64_t bits;
    bool symmetric;
    double search;        /* exponent of the error that the search for a smaller range
                             minimises; 0: no search */
    int dtype;            /* enum scale_dtype of the stored scales */
    int form;             /* enum grid_form */
    double factor;        /* of both ends of the range; 0: as 1 */
    int codes;            /* enum quant_codes */
    const double *shared; /* a number that the rows share (floats_fit); NULL: none */
    int64_t rows;         /* of integers: rows that share a range, a divisor of TILE_ROWS; 0: 1 */
};

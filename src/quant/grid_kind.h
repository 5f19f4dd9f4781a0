/* grid_kind: the grid of a group in a tile of rows, and what chooses it. grid.h fits grids of
 * integers, formats.h those of other codes. */
#pragma once
#include "coding/tile.h"
#include "quant/quant.h"

/* One group's scale and zero for each row of a tile. */
struct grid {
    float scale[TILE_ROWS], zero[TILE_ROWS];
    float stored[TILE_ROWS]; /* the scale rounded for storage */
    int codes;               /* enum quant_codes; all but integers have zero 0 (formats.h) */
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
    double search;        /* quant_options.range_search */
    int dtype;            /* enum scale_dtype of the stored scales */
    int form;             /* enum grid_form */
    int codes;            /* enum quant_codes */
    const double *shared; /* formats_shared_at; NULL: none */
};

/* Columns of a group: group_size, at most a whole row. */
static inline int64_t grid_group(const struct quant_options *o, int64_t cols)
{
    return o->group_size < 0 || o->group_size > cols ? cols : o->group_size;
}

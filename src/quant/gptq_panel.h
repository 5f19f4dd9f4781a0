/* gptq_panel: GPTQ's factor R as the sweep reads it. Columns are processed in panels of some blocks
 * each (gptq_band.h). A panel's columns are stored as rows without gaps, so that what is before a
 * panel is one product with neither a transposition nor strides (docs/decisions/0031), and only the
 * triangle of R is stored. */
#pragma once
#include "quant/gptq.h"

/* Columns [begin, end) of the sweep, which are the blocks [first, last). Groups of theirs extend to
 * `reach`. */
struct gptq_panel {
    int64_t first, last, begin, end, reach;
    const float *before; // (reach - begin, begin) row j: column begin + j of R before the panel
    const float *own;    /* of each block, one after the other: */
    // (reach - begin of the block, begin - begin of the panel) column by column what is in the
    // panel and before the block
    // (end - begin, end - begin) the block's own rows
};

/* Panel k without its numbers, and the number of panels. They need the options, columns, blocks'
 * number and shape of p alone. */
struct gptq_panel gptq_panel_of(const struct gptq_prepared *p, int64_t k);
int64_t gptq_panel_count(const struct gptq_prepared *p);

/* Floats of panel->before, of panel->own and of one block of it. */
int64_t gptq_panel_before(const struct gptq_panel *panel);
int64_t gptq_panel_own(const struct gptq_prepared *p, const struct gptq_panel *panel);
int64_t gptq_block_own(const struct gptq_panel *panel, const struct gptq_block *b);

/* own = the panel's own rows and columns of R, corner (pitch: of its rows) in f64. */
void gptq_panel_pack(const struct gptq_prepared *p, const struct gptq_panel *panel, float *own,
                     const double *corner, int64_t pitch);

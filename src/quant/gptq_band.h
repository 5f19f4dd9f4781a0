/* gptq_band: GPTQ of a band of rows, column by column. A band is the tiles of rows (tile.h) that
 * one thread sweeps at the same time, so that products with the factor are wide enough for BLAS.
 *
 * Columns are processed in panels of some blocks each. What the errors of all columns before a
 * panel contribute to it is one product for the whole band; what a panel's own columns contribute
 * is added block by block. Small matrices have bands of one tile and panels of one block. All
 * shapes depend on the matrix and its block size alone (docs/decisions/0003). */
#pragma once
#include "coding/tile.h"
#include "quant/gptq.h"
#include "quant/grids.h"

/* Errors and weights of a column are side by side, so that one product with a panel of the factor
 * gives both the updates of the sweep and |W R|². */
enum { GPTQ_PITCH = 2 * TILE_ROWS, GPTQ_BAND_MOST = 2 };

/* State of a tile during the sweep. */
struct gptq_tile {
    int64_t row;    /* first row */
    float *errors;  // (cols, pitch) W - Q of columns already quantized
    float *weights; // (cols, pitch) W
    int64_t pitch;
    float *carried;      // (cols, TILE_ROWS) what P multiplies in later blocks; NULL without P
    struct grid *groups; // (groups) grids computed before the sweep; NULL: computed during it
    struct grid grid;    /* of the current group */
    double loss[TILE_ROWS], weight[TILE_ROWS];
};

struct gptq_band {
    const struct quant_job *job;
    const struct gptq_prepared *p;
    int64_t pitch;      /* GPTQ_PITCH for each tile, also for those that are not swept */
    int64_t first, end; /* the tiles of `tile` that are swept */
    float *both;        // (cols, pitch) errors and weights of all tiles side by side, zeros for
                        // those that are not swept; strips: one after the other
    struct gptq_tile tile[GPTQ_BAND_MOST];
};

/* Scratch of one thread. Widths are the largest of a panel (reach - begin), of a block (reach -
 * begin) and of a block's columns (end - begin). */
struct gptq_scratch {
    float *memory;  /* owner of the arrays below */
    float *ahead;   // (panel, pitch of the band) errors and weights of all columns before the panel
                    // times the factor's panel
    float *carried; // (block, pitch of the band) the same for all columns before the block
    float *compensated; // (block, TILE_ROWS) weights after compensation of the earlier blocks'
                        // errors
    float *working;     // (columns, TILE_ROWS) the same, updated inside the block
    float *rounded;     // (columns, TILE_ROWS) quantized weights, from which errors are computed
    float *stored;      // (columns, TILE_ROWS) the result: the same, or with the stored scale
    float *correction;  // (block, TILE_ROWS) what P adds; empty without P
};

/* Allocates a band's arrays, and a thread's scratch; free with *_free, also after a failure.
 * ERR_NOMEM. */
MUST_USE enum status gptq_band_make(const struct quant_job *job, struct gptq_band *b,
                                    struct err *e);
void gptq_band_free(struct gptq_band *b);
MUST_USE enum status gptq_scratch_make(const struct quant_job *job, struct gptq_scratch *s,
                                       struct err *e);
void gptq_scratch_free(struct gptq_scratch *s);

/* Starts on band i of the matrix, of whose tiles those in [first, end) are swept. */
void gptq_band_begin(struct gptq_band *b, int64_t i, int64_t first, int64_t end);

/* Quantizes the panel's columns, after all columns before it. inverse: of the diagonal blocks of
 * the panel's blocks, one after the other, each with room for the widest block; NULL: those of the
 * prepared blocks. */
void gptq_band_quantize(struct gptq_band *b, struct gptq_scratch *s, const struct gptq_panel *panel,
                        const float *inverse);

/* The group whose grid column i of the sweep has. Groups keep their columns, but for those in
 * order of activation that are fitted during the sweep. */
int64_t gptq_group_of(const struct gptq_prepared *p, int64_t i);

/* sums: of the swept tiles, by tile of the matrix. */
void gptq_band_end(const struct gptq_band *b, struct gptq_sums *sums);

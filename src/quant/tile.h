/* tile: the weights of TILE_ROWS output rows, turned so that a column of the matrix is contiguous.
 *
 * Everything a quantizer does runs down a column of independent rows, so this is the order in which
 * it vectorises. Tiles always have TILE_ROWS rows: missing ones are zero. A row's result then does
 * not depend on how many rows there are, nor on the threads that share the tiles. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

enum { TILE_ROWS = 64 };

/* Which matrix columns stand in a tile. */
struct tile_columns {
    const int64_t *order; /* column j of the tile is column order[j] of w; NULL: as they stand */
    const bool *dead;     /* columns of w to be read as zero; NULL: none */
};

/* t (n, TILE_ROWS) with row pitch ldt <- rows [row, row + TILE_ROWS) and columns [first, first +
 * n), counted in the order of c, of w (rows, cols). */
void tile_load(float *t, int64_t ldt, const float *w, int64_t rows, int64_t cols, int64_t row,
               int64_t first, int64_t n, const struct tile_columns *c);

/* The way back for the rows that exist, pitch TILE_ROWS. */
void tile_store(float *w, int64_t rows, int64_t cols, int64_t row, int64_t first, int64_t n,
                const int64_t *order, const float *t);

/* Number of tiles that so many rows are cut into. */
static inline int64_t tile_count(int64_t rows)
{
    return (rows + TILE_ROWS - 1) / TILE_ROWS;
}

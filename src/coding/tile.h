/* tile: the weights of TILE_ROWS output rows, transposed so that a column of the matrix is
 * contiguous.
 *
 * Quantizers apply the same operation to all rows of a column, so this layout vectorises. Tiles
 * always have TILE_ROWS rows, missing ones are zero, so that a row's result depends neither on the
 * number of rows nor on the threads that share the tiles. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

enum { TILE_ROWS = 64 };
#define EACH_ROW for (int r = 0; r < TILE_ROWS; r++)

/* Which columns of the matrix a tile has. */
struct tile_columns {
    const int64_t *order; /* column j of the tile is column order[j] of w; NULL: the same order */
    const bool *dead;     /* columns of w that are read as zero; NULL: none */
};

/* t (n, TILE_ROWS) with row pitch ldt <- rows [row, row + TILE_ROWS) and columns [first, first +
 * n), counted in the order of c (NULL: all as they are), of w (rows, cols). */
void tile_load(float *t, int64_t ldt, const float *w, int64_t rows, int64_t cols, int64_t row,
               int64_t first, int64_t n, const struct tile_columns *c);

/* Copies a tile with pitch TILE_ROWS back to the rows of w that exist. */
void tile_store(float *w, int64_t rows, int64_t cols, int64_t row, int64_t first, int64_t n,
                const int64_t *order, const float *t);

/* The largest magnitude of n weights; 0 for none. */
float row_largest(const float *w, int64_t n);
/* ‖x‖² and ‖w − q‖² of n numbers, summed in their order. */
double row_squares(const float *x, int64_t n);
double row_distance(const float *w, const float *q, int64_t n);

/* Number of tiles for `rows` rows. */
static inline int64_t tile_count(int64_t rows)
{
    return (rows + TILE_ROWS - 1) / TILE_ROWS;
}

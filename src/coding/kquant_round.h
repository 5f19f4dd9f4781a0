/* kquant_round: the quantized types of llama.cpp: blocks of 32 weights of a row with one scale of
 * 16 bits, and blocks of 256 whose smaller blocks have scales of few bits times one of 16
 * ("K-quants"). Source: ggml's ggml-quants.c: quantize_q4_K and its relatives, without importance
 * by the functions *_ref, with it by *_impl. Weights are what its dequantize_row_* make of the
 * stored blocks, bit for bit. */
#pragma once
#include "coding/kquant_fit.h"

enum { KQUANT_SMALL = 32, KQUANT_LARGE = 256, KQUANT_BLOCKS = 16 };

/* Scratch of one thread: a block of columns of a tile of rows; (n, TILE_ROWS). */
struct kquant_bench {
    float x[KQUANT_LARGE * TILE_ROWS]; /* weights, and then what becomes of them */
    float w[KQUANT_SMALL * TILE_ROWS]; /* what each weight of a small block counts */
    float importance[KQUANT_LARGE];    /* mean square of each column's inputs */
    float square[TILE_ROWS];           /* mean square of the whole row's weights */
    float scale[KQUANT_BLOCKS * TILE_ROWS], offset[KQUANT_BLOCKS * TILE_ROWS]; /* small blocks */
    float count[KQUANT_BLOCKS * TILE_ROWS];                                    /* sums of w */
};

struct kquant_format;

/* Replaces the weights b->x of a block by what its stored form means. importance: b->importance and
 * b->square count. Local. */
typedef void kquant_round(struct kquant_bench *b, const struct kquant_format *f, bool importance);

struct kquant_format {
    int64_t columns, small; /* of a block and of the blocks in it */
    double bits;            /* per weight */
    kquant_round *round;
    float levels;       /* codes: 0 to levels, or -levels to levels - 1 */
    float scale_levels; /* the same of the scales of small blocks */
    struct kquant_search plain, weighted;
    const struct kquant_format *instead; /* if the row is no multiple of columns */
};

/* llama.cpp's formats of these names. */
extern const struct kquant_format kquant_q2_k, kquant_q3_k, kquant_q4_k, kquant_q5_k, kquant_q6_k,
    kquant_q4_0, kquant_q5_0, kquant_q5_1, kquant_q8_0, kquant_iq4_nl;

/* sum[r] += the squares of row r of x (n, TILE_ROWS), column by column. */
void kquant_add_squares(float *sum, const float *x, int64_t n);

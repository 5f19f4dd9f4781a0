/* kquant_fit: scales of blocks in the formats of llama.cpp (kquant_round.h). Source of the
 * searches: ggml's ggml-quants.c, where make_qx_quants, make_q3_quants, make_qkx2_quants,
 * make_qkx3_quants and make_qp_quants do the same, in this order of f32 operations.
 *
 * Arrays of n columns are (n, TILE_ROWS): each row of a tile is a block of its own. x: weights, w:
 * what each counts in the squared error. An integer "inverse" step maps weights to codes. Local. */
#pragma once
#include "coding/tile.h"

/* The error that a search for scale and offset minimises, and the ranges that it tries: the inverse
 * scale is (levels + first + i step) / (largest - smallest), for i up to steps. The smallest weight
 * becomes the offset of each range that is better than those before. */
struct kquant_search {
    float levels; /* the largest code */
    float first, step;
    int steps;
    bool absolute; /* sum of w |error| instead of w error^2 */
};

/* Scales of the rows of a tile. */
struct kquant_scale {
    float scale[TILE_ROWS];
    float offset[TILE_ROWS];  /* the value of code 0; 0 without offset */
    float inverse[TILE_ROWS]; /* codes are round(inverse (x - from)) */
    float from[TILE_ROWS];
};

/* Codes 0 to levels with an offset of at most 0: of the ranges, the one whose least-squares scale
 * and offset give the least error. */
void kquant_fit_offset(struct kquant_scale *out, const float *x, const float *w, int64_t n,
                       const struct kquant_search *s);
/* Codes -levels to levels - 1: of 19 inverse scales around -levels / (the weight of the largest
 * magnitude), the one whose least-squares scale gives the least error. */
void kquant_fit_signed(struct kquant_scale *out, const float *x, const float *w, int64_t n,
                       float levels);
/* The same from the first of these, by moving single codes while that lowers the error. */
void kquant_fit_moves(struct kquant_scale *out, const float *x, const float *w, int64_t n,
                      float levels);
/* codes (n, TILE_ROWS), 0 to levels, and scale of numbers x that are not negative: of 9 inverse
 * scales around levels / largest the best, and then moves. */
void kquant_fit_positive(float *scale, float *codes, const float *x, const float *w, int64_t n,
                         float levels);
/* IQ4_NL: of 16 inverse scales, 127 / the weight of the largest magnitude and -134 to -120 over it,
 * the one whose least-squares scale gives the least error. */
void kquant_fit_iq4(float *scale, const float *x, const float *w, int64_t n);

/* integers: products of codes of integer grids, y = x Wᵀ with activations x = s (a - z) and weights
 * W = t (b - v). The sums of a b are exact, in integers of 32 bits, and with the sums of a and of b
 *
 *     y = s t (sum a b - z sum b - v (sum a - k z))
 *
 * is rounded three times for each group of columns, however long the sums are. oneDNN computes them
 * where it has instructions for bytes (AVX512_VNNI, AMX_INT8); elsewhere callers multiply the
 * dequantized numbers in f32, which agrees up to the rounding of such sums. One thread. */
#pragma once
#include "util/err.h"
#include <stdbool.h>
#include <stdint.h>

/* The grids of weights (rows, cols): scale and zero of row i and each `group` columns, the last of
 * fewer. Weight = scale (code - zero) in f32, codes being 0 to 2^bits - 1. */
struct integer_grids {
    int64_t bits, group;
    const double *grid; // (rows, groups, 2) borrowed
};
/* Activations of tokens: scale[t] (codes[t] - zero[t]), zeros being 0 to 255. */
struct integer_inputs {
    uint8_t *codes; // (tokens, cols)
    float *scale;   // (tokens)
    int32_t *zero;  // (tokens)
};

/* Whether integers are multiplied here. Thread-safe. */
bool integers_run(void);
/* What computes them, "oneDNN 2.6.3 brg:avx512_core_vnni", or "simulated". Static string. */
const char *integers_unit(void);
/* Whether sums over a group fit 32 bits, and groups are long enough to gain anything. */
bool integers_fit(int64_t bits, int64_t group);

/* How so many rows of weights lie in memory. */
struct integer_layout;
/* *out (free with integer_layout_free) for a matrix (rows, cols) in groups; integers_run and
 * integers_fit. ERR_NOMEM. */
MUST_USE enum status integer_layout_make(int64_t rows, int64_t cols, int64_t group,
                                         struct integer_layout **out, struct err *e);
/* NULL: does nothing. */
void integer_layout_free(struct integer_layout *l);
CLEANUP_BY_VALUE(struct integer_layout, integer_layout_free);
/* A multiple of 64. */
int64_t integer_layout_bytes(const struct integer_layout *l);
/* A number that different layouts do not share, also those of other processes. */
uint64_t integer_layout_digest(const struct integer_layout *l);
/* data (integer_layout_bytes, at a multiple of 64) = the weights w (rows of the layout, cols),
 * which are rows `row`, ... of the matrix of g. ERR_NUMERIC: one is not on its grid; ERR_NOMEM. */
MUST_USE enum status integer_layout_fill(const struct integer_layout *l,
                                         const struct integer_grids *g, int64_t row, const float *w,
                                         void *data, struct err *e);
/* y (m, rows of the layout), row pitch ldy = x times the weights in data, transposed. False: out of
 * memory. */
MUST_USE bool integer_product(float *y, int64_t ldy, const struct integer_inputs *x,
                              const struct integer_layout *l, const void *data, int64_t m);

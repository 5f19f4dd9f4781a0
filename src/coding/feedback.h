/* feedback: block by block, a code that takes several columns at once, each block's error
 * compensated by the earlier ones (LDLQ; QuIP: Chee et al. 2023, arXiv 2307.13304; in blocks:
 * QuIP#, Tseng et al. 2024, arXiv 2402.04396).
 *
 * With H = L D Lᵀ, L unit lower triangular in blocks of columns, the blocks are coded from the last
 * to the first: block k is coded as x_k = w_k + Σ_{l > k} (w_l - q_l) L_lk. The error is then
 * tr(E H Eᵀ) = Σ_k |(x_k - q_k) C_k|², C_k C_kᵀ = D_k. */
#pragma once
#include "util/err.h"

enum { BAND_ROWS = 16 };

struct feedback {
    int64_t cols, block; /* cols: a multiple of block */
    float *factor;       // of each block from the last on: (columns after it, block) of L, of later
                         // blocks first
    float *corner;       // (cols / block, block, block) C_k, in the same order
    bool open;           /* nothing is compensated: x_k = w_k; sums are the same */
};

/* Floats of factor and of corner. */
int64_t feedback_floats(int64_t cols, int64_t block);
int64_t feedback_corner_floats(int64_t cols, int64_t block);
/* Allocates; free with feedback_free. ERR_NOMEM. */
MUST_USE enum status feedback_room(struct feedback *f, int64_t cols, int64_t block, struct err *e);
void feedback_free(struct feedback *f);
/* From H = h (cols, cols), which becomes scratch. ERR_NUMERIC: h is not positive definite. */
MUST_USE enum status feedback_make(struct feedback *f, double *h, struct err *e);
/* No feedback: H = I. */
void feedback_plain(struct feedback *f);

/* Sums over the rows of a band. */
struct feedback_sums {
    double loss, weight;             /* tr(E H Eᵀ), tr(W H Wᵀ) */
    double loss_plain, weight_plain; /* |E|², |W|² */
};

/* Codes a block of columns of a band: `bytes`, which stand for q (BAND_ROWS, block), for x. */
typedef void feedback_code(void *context, const float *x, uint8_t *bytes, float *q);

/* Codes BAND_ROWS rows w (BAND_ROWS, cols): codes (cols / block, size), from the left.
 * scratch (2 BAND_ROWS cols). In one thread. */
void feedback_band(const struct feedback *f, const float *w, uint8_t *codes, int64_t size,
                   feedback_code *code, void *context, float *scratch, struct feedback_sums *sums);

/* gptq: what the two halves of GPTQ share. gptq.c makes the factor, gptq_sweep.c walks the columns.
 * The derivation is in docs/math/gptq.md. */
#pragma once
#include "quant/quant.h"

/* Columns [begin, end) are quantized one after the other before the columns behind them hear of it.
 * Groups that start inside may reach beyond the end, and their scales come from weights that know
 * of all earlier blocks: those are needed for [begin, reach). */
struct gptq_block {
    int64_t begin, end, reach;
    float *inverse; // (reach - begin, reach - begin) of that part of the factor; upper triangular
};

/* Columns are counted in the order of the sweep, if it is not said otherwise. */
struct quant_prepared {
    struct quant_options options; /* those it was made with */
    int64_t cols;
    int64_t *order; // (cols) position in the sweep -> column of W; NULL: as they stand
    bool *dead;     // (cols) by column of W: no input, weights are taken as zero; NULL: none
    float *factor;  // (cols, cols) R upper, zeros below
    double damping; /* share of the diagonal's mean that was added; NaN: none helped, R = I */
    double lambda;  /* what stands on the diagonal because of it */
    int64_t n_blocks;
    struct gptq_block *blocks;
};

/* Sums over all weights of a linear. */
struct gptq_sums {
    double loss;                     /* |(W - Q) R|², as the sweep saw it */
    double weight;                   /* |W R|² */
    double loss_plain, weight_plain; /* |W - Q|², |W|², without dead columns */
};

/* Quantizes job->w into job->q. Parallel over tiles of rows. */
MUST_USE enum status gptq_sweep(const struct quant_job *job, struct gptq_sums *sums, struct err *e);

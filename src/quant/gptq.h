/* gptq: what the two halves of GPTQ share. gptq.c makes the factor, gptq_sweep.c walks the columns.
 * The derivation is in docs/math/gptq.md. */
#pragma once
#include "quant/quant.h"

/* Columns [begin, end) are quantized one after the other before the columns behind them hear of it.
 * Groups that start inside may reach beyond the end, and their scales come from weights that know
 * of all earlier blocks: those are needed for [begin, reach). */
struct gptq_block {
    int64_t begin, end, reach;
    float *inverse; // (reach - begin, reach - begin) of that part of the factor; upper triangular;
                    // NULL when the factor stands in a dist
};

/* Columns are counted in the order of the sweep, if it is not said otherwise. */
struct gptq_prepared {
    struct quant_options options; /* those it was made with */
    int64_t cols;
    int64_t *order; // (cols) position in the sweep -> column of W; NULL: as they stand
    bool *dead;     // (cols) by column of W: no input, weights are taken as zero; NULL: none
    float *factor;  // (cols, cols) R upper, zeros below; NULL: it stands in dist
    struct dist *dist;
    double damping; /* share of the diagonal's mean that was added; NaN: none helped, R = I */
    double lambda;  /* what stands on the diagonal because of it */
    int64_t n_blocks;
    int64_t widest; /* greatest reach - begin of a block */
    struct gptq_block *blocks;
};

/* Sums over all weights of a linear. */
struct gptq_sums {
    double loss;                     /* |(W - Q) R|², as the sweep saw it */
    double weight;                   /* |W R|² */
    double loss_plain, weight_plain; /* |W - Q|², |W|², without dead columns */
};

/* --- gptq_factor.c --- */

/* H = gptq_scale * sums. */
double gptq_scale(const struct quant_input *in, const struct quant_options *o);
/* Factors H with diagonal (cols, by column of W), into h (cols, cols) or, where the sums are spread
 * out (then collective, h NULL), in place. Sets damping and lambda. ERR_NUMERIC: no damping that
 * the options allow helps. */
MUST_USE enum status gptq_factor(struct gptq_prepared *p, const struct quant_input *in,
                                 const double *diagonal, double *h, struct err *e);
/* The blocks' bounds, and room for their inverses; then the inverses of R = r (cols, cols). */
MUST_USE enum status gptq_blocks(struct gptq_prepared *p, bool inverses, struct err *e);
MUST_USE enum status gptq_inverses(struct gptq_prepared *p, const double *r, struct err *e);

/* --- gptq_sweep.c --- */

/* Quantizes this rank's rows of job->w into job->q. Parallel over tiles of rows; collective on the
 * team, sums are of all rows. */
MUST_USE enum status gptq_sweep(const struct quant_job *job, struct gptq_sums *sums, struct err *e);

/* Bytes of gptq_sweep's scratch. */
int64_t gptq_sweep_bytes(const struct quant_options *o, const struct quant_extent *x);

/* awq: internal structs and functions of AWQ. awq.c is the method, awq_search.c finds the scales.
 */
#pragma once
#include "quant/grids.h"
#include "quant/mixing.h"

/* Which linears are scaled: none, those whose scales the linear or the norm before absorbs, also
 * those behind an activation function, or each by itself. */
enum awq_scaled { SCALED_NONE, SCALED_FOLDABLE, SCALED_ACTIVATION, SCALED_FREE };

/* Whose output a trial is judged by: the attention's or the MLP's, or the linears'. */
enum awq_judged { JUDGED_MODULE, JUDGED_LINEAR };

struct awq_options {
    int scaled; /* enum awq_scaled */
    int judged; /* enum awq_judged */
    bool duo_scaling, zero_point, clip;
};

/* Exponents 0, 1 / 20, ... 19 / 20 of a channel's mean magnitude are tried. */
enum { AWQ_RATIOS = 20 };

struct awq_linear {
    float *columns; // (cols) scales of the input channels; NULL: all 1
    float *rows;    // (rows) divisors of the rows: the scales of the linear behind; NULL: all 1
    bool stored; /* nothing absorbs the scales of the columns: they are stored beside the codes */
    bool clips;  /* its ranges are searched */
    int ratio;   /* the exponent that was chosen, in units of 1 / AWQ_RATIOS */
    double loss[AWQ_RATIOS]; /* of each exponent: mean squared difference of the outputs; NaN: it
                                was not searched */
};

/* What the linears of a stage need (prepared). */
struct awq_stage {
    int first, n;          /* numbers of its linears in the block */
    struct mixing *mixing; /* of its inputs; NULL: none. Scales are those of mixed columns */
    struct awq_linear *linear;
};

/* The method's own options and its grid. */
const struct awq_options *awq_options_of(const struct quant_options *o);
struct grid_kind awq_grid(int64_t bits, const struct quant_options *o);

/* Searches the scales of the linears of a stage that the options want scaled. Collective on the
 * team. ERR_NOMEM; ERR_NUMERIC: outputs are not finite. */
MUST_USE enum status awq_search(const struct quant_block *b, int stage, struct awq_stage *s,
                                struct err *e);
/* *out (sample_count, cols) = the sampled inputs, mixed; the caller frees it. ERR_NOMEM. */
MUST_USE enum status awq_sample(const struct quant_input *in, const struct mixing *mixing,
                                float **out, struct err *e);
/* Bytes that awq_search takes on a rank. */
int64_t awq_search_bytes(const struct quant_extent *x);

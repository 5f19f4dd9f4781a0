/* mixing: random orthogonal changes of a linear's inputs, the option `mixing`.
 *
 * W x = (W R)(Rᵀ x): a method quantizes W R for the inputs Rᵀ x, and the weights are Q(W R) Rᵀ.
 * R = H diag(±1) / √cols with a Hadamard matrix H (coding/mix.h) spreads large weights and inputs
 * over all columns (QuIP, QuaRot: arXiv 2404.00456). The signs come from the option mixing_seed
 * and the number of the block, so that nothing is stored for R.
 *
 * Products are computed in f64, row by row, and rounded to f32. */
#pragma once
#include "coding/mix.h"
#include "quant/quant.h"

struct mixing {
    struct mix mix;
    double *scratch; // (threads, 2, columns) rows of each thread
};

/* ERR_USAGE if the options want a mixing of so many columns and none is known. */
MUST_USE enum status mixing_check(const struct quant_options *o, int64_t cols, struct err *e);

/* *out = the mixing of a stage of a block; NULL if the options want none. The caller frees it
 * with mixing_free; it serves as many threads as OpenMP has now. ERR_USAGE as mixing_check,
 * ERR_NOMEM. */
MUST_USE enum status mixing_make(struct mixing **out, const struct quant_options *o, int64_t layer,
                                 int64_t cols, struct err *e);
void mixing_free(struct mixing *r); /* accepts NULL */
CLEANUP_BY_VALUE(struct mixing, mixing_free)

/* The functions below accept NULL for no mixing. */

/* to = from R, or from Rᵀ if back, for n rows of cols columns; may be the same rows. Parallel over
 * rows. ERR_NUMERIC: a number is too large for f32; the text counts rows from first. */
MUST_USE enum status mixing_rows(const struct mixing *r, float *to, const float *from,
                                 int64_t first, int64_t n, bool back, struct err *e);
/* The same in place for the rows of a tile t (cols, TILE_ROWS). In one thread. */
void mixing_tile(const struct mixing *r, float *t, bool back);
/* gram (cols, cols), of whose input only the upper triangle is read, <- Rᵀ gram R. Parallel. */
void mixing_gram(const struct mixing *r, double *gram);

/* For a method's prepare: *to = the input with the Gram matrix, if it has one, of mixed inputs,
 * in memory *gram that the caller frees. */
MUST_USE enum status mixing_input(const struct quant_input *from, const struct quant_options *o,
                                  struct quant_input *to, double **gram, struct err *e);
/* A method's run, of which `plain` is the part without mixing: runs it on mixed weights, mixes the
 * result back, and corrects it (lqer_add). Collective, as run. */
typedef enum status quant_run(const struct quant_job *, struct quant_report *, struct err *);
MUST_USE enum status mixing_run(const struct quant_job *job, quant_run *plain,
                                struct quant_report *report, struct err *e);

/* --- a low-rank correction, the option lqer_rank (lqer.c) --- */

/* Adds to job->q, and to job->unrounded if it is there, the product of two matrices of that rank,
 * at most the smaller side, with numbers of 16 bits: of all such products the one next to (W - Q)
 * diag(s), s_j the mean |x_j| of input j (Zhang et al. 2024, arXiv 2402.02446, L2QER; the authors'
 * lqer_act.py and scale.py). In the report errors with a Hessian become NaN. Rank 0: nothing.
 * Collective on the team. ERR_NUMERIC: a mean is not finite; ERR_NOMEM, ERR_MPI. */
MUST_USE enum status lqer_add(const struct quant_job *job, struct quant_report *report,
                              struct err *e);

/* Adds its memory to a method's plan. */
void lqer_memory(const struct quant_options *o, const struct quant_extent *x,
                 struct quant_memory *out);
/* Adds its work. */
void lqer_cost(const struct quant_options *o, int64_t rows, int64_t cols, struct quant_cost *out);

/* --- plans --- */

/* Bytes of a mixing, and of applying it. */
int64_t mixing_bytes(const struct quant_extent *x);
/* Add mixing_input (calibrates) and mixing_run, with the correction, to a method's plan. */
void mixing_memory(const struct quant_options *o, const struct quant_extent *x, bool calibrates,
                   struct quant_memory *out);
void mixing_cost(const struct quant_options *o, int64_t rows, int64_t cols, bool calibrates,
                 struct quant_cost *out);

/* incoherent: what methods that code several columns at once share (trellis, e8p).
 *
 * Ŵ = s Vᵀ C(V W U / s) Uᵀ: U and V mix input and output channels by a Hadamard matrix after random
 * signs (QuIP#, arXiv 2402.04396, section 3), so that a code C for normally distributed numbers
 * suits every layer; s makes their root mean square that of the code. Blocks of columns are coded
 * with feedback (coding/feedback.h) for the Hessian Uᵀ H U. Where no Hadamard matrix of an order is
 * known (math/hadamard.h), equal parts of a power of two are mixed. */
#pragma once
#include "coding/block_code.h"
#include "quant/quant.h"

/* Members of quant_method that are alike. */
#define INCOHERENT_OPTIONS "damping hessian true_sequential incoherence incoherence_seed feedback"
#define INCOHERENT_MEMBERS                                                                         \
    .options = INCOHERENT_OPTIONS, .prepare_options = INCOHERENT_OPTIONS,                          \
    .statistics = WANTS(STATISTIC_GRAM), .share = incoherent_share, .release = incoherent_release

/* quant_method.prepare with blocks of so many columns, share and release. */
MUST_USE enum status incoherent_prepare(const struct quant_input *in, const struct quant_options *o,
                                        int64_t block, void **out, struct err *e);
MUST_USE enum status incoherent_share(const struct quant_input *in, void *prepared, enum status st,
                                      struct err *e);
void incoherent_release(void *prepared);

/* A code: for each thread a context of `code`, which codes blocks of BAND_ROWS rows; the root mean
 * square of numbers that it suits; what its codes stand for. */
struct incoherent_code {
    feedback_code *code;
    void *const *contexts;
    double rms;
    const struct block_code *values;
};
/* quant_method.run; fills quant_job.grids. Bits per weight: codes, a bit for each sign, s.
 * Collective. */
MUST_USE enum status incoherent_run(const struct quant_job *job, const struct incoherent_code *c,
                                    struct quant_report *report, struct err *e);

/* Add to a method's plan (quant_method.memory and cost), without the code. */
void incoherent_memory(const struct quant_extent *x, int64_t block, struct quant_memory *out);
void incoherent_cost(int64_t rows, int64_t cols, struct quant_cost *out);

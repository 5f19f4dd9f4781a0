/* cost: what a visit computes and reads, from shapes, numbers of tokens and options alone.
 *
 * FLOPs are counted as for dense kernels: a product of (m, k) and (k, n) is 2mkn, attention is
 * causal, a Gram matrix is one triangle. Seconds follow from a machine's rates, from the share of
 * them that each phase is known to reach, and from how long finished visits really took.
 */
#pragma once
#include "config/sweep.h"
#include "model/sizes.h"
#include "util/err.h"

enum cost_phase {
    COST_READ,
    COST_FORWARD,
    COST_HESSIAN,
    COST_FACTOR,
    COST_SWEEP,
    COST_HEAD,
    COST_CURVATURE,
    COST_SECOND_ORDER,
    COST_PHASE_N
};
/* "read", "forward", ...: as in the records' seconds_*. */
const char *cost_phase_name(enum cost_phase phase);

struct cost {
    double flop[COST_PHASE_N];
    double bytes; /* read from storage */
};
void cost_add(struct cost *to, const struct cost *more, double times);
double cost_flop(const struct cost *c);

/* Sequences as far as cost is concerned. */
struct cost_tokens {
    double tokens, squares; /* sums of lengths and of their squares */
    int64_t sequences, longest;
    bool guessed; /* from the text's size: nothing in its options says how many */
};
/* From the options, the size of the text and the shape of ids; nothing is tokenized. */
struct cost_tokens cost_tokens_of(const struct data_options *d);

/* What every piece of a visit does: read the checkpoint (bytes_a_weight each), walk it in full
 * precision with the evaluation, score it. */
struct cost cost_shared(const struct model_sizes *m, const struct cost_tokens *evaluation,
                        double bytes_a_weight);
/* What one variant adds. Its calibration costs nothing where shared statistics serve it. */
struct cost cost_variant(const struct model_sizes *m, const struct method_entry *method,
                         const struct cost_tokens *evaluation,
                         const struct cost_tokens *calibration);
/* The statistics that those of the n methods share that ask for it, and what is prepared from them,
 * once. Nothing where none asks. */
struct cost cost_shared_statistics(const struct model_sizes *m, const struct method_entry *methods,
                                   int64_t n, const struct cost_tokens *calibration);
/* Curvature with so many products with the Hessian at most. */
struct cost cost_curvature(const struct model_sizes *m, const struct cost_tokens *tokens,
                           int64_t products);

/* The account of second order and critical sharpness (second_order.h), depth: enum
 * second_order_depth; of a visit with cells, once, and of each of its cells more. */
struct cost cost_second_order(const struct model_sizes *m, const struct cost_tokens *tokens,
                              int depth, bool critical);
struct cost cost_second_order_cell(const struct model_sizes *m, const struct cost_tokens *tokens,
                                   int depth, bool critical);

struct cost_rates {
    double sgemm, dgemm;             /* FLOP/s of a worker */
    double read;                     /* bytes/s */
    double correction[COST_PHASE_N]; /* measured seconds over expected ones; 1: none measured */
    bool measured;                   /* sgemm and dgemm */
};
/* From one figure, as people know it. */
struct cost_rates cost_rates_given(double gflops);
/* This process's threads, a tenth of a second each, once; folder: where checkpoints lie, to read
 * from, or NULL. ERR_NOMEM. */
MUST_USE enum status cost_rates_measure(const char *folder, struct cost_rates *out, struct err *e);

/* By phase into seconds (may be NULL); the sum, reading ahead while computing taken into account.
 */
double cost_seconds(const struct cost *c, const struct cost_rates *r, double seconds[COST_PHASE_N]);

/* Takes in what a finished record (type checkpoint or cell) says about its phases, beside what was
 * expected. Then makes corrections of the sums: phases that took less than a second in all stay. */
struct cost_measured {
    double expected[COST_PHASE_N], taken[COST_PHASE_N];
};
void cost_learn(struct cost_measured *m, const struct cost *c, const struct cost_rates *r,
                const json_t *record);
void cost_correct(const struct cost_measured *m, struct cost_rates *r);

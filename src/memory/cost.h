/* cost: estimates the floating-point operations, the bytes read and the seconds of a visit from
 * shapes, numbers of tokens and options. Nothing here communicates.
 *
 * FLOPs are counted as for dense kernels: a product of (m, k) and (k, n) is 2mkn, attention is
 * causal and stops at its window, a Gram matrix is one triangle. Seconds follow from a machine's
 * rates, the efficiency of each phase, and the measured times of finished visits. */
#pragma once
#include "config/sweep.h"
#include "math/products.h"
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

/* The properties of token sequences that determine the cost. */
struct cost_tokens {
    double tokens, squares; /* sums of lengths and of their squares */
    int64_t sequences, longest;
    bool guessed; /* estimated from the size of the text, because the options set no limit */
};
/* Estimates them from the options, the text's size and the shape of ids, without tokenizing. */
struct cost_tokens cost_tokens_of(const struct data_options *d);
/* As they are; NULL: none. */
struct cost_tokens cost_tokens_count(const struct sequences *s);
void cost_tokens_add(struct cost_tokens *to, const struct cost_tokens *more);

/* Work that every piece of a visit repeats: reading the checkpoint (bytes_per_weight for each
 * weight), the full-precision forward pass of the evaluation texts, and their scores. */
struct cost cost_shared(const struct model_sizes *m, const struct cost_tokens *evaluation,
                        double bytes_per_weight);
/* Work that one variant adds. Calibration costs nothing if the variant uses shared statistics. */
struct cost cost_variant(const struct model_sizes *m, const struct method_entry *method,
                         const struct cost_tokens *evaluation,
                         const struct cost_tokens *calibration);
/* Work of computing the shared statistics once and of preparing from them, if any of the n methods
 * uses them; else zero. */
struct cost cost_shared_statistics(const struct model_sizes *m, const struct method_entry *methods,
                                   int64_t n, const struct cost_tokens *calibration);
/* Work of measuring curvature in a subset (enum hvp_subset) with at most `products` products with
 * the Hessian. kept, here and below: activations are retained (struct memory_fit), so that a
 * product does not recompute them. */
struct cost cost_curvature(const struct model_sizes *m, const struct cost_tokens *tokens,
                           int subset, int64_t products, bool kept);

/* Work of the second-order prediction and the critical sharpness (second_order.h): what a visit
 * does once, and what each of its cells adds. depth: enum second_order_depth. */
struct cost cost_second_order(const struct model_sizes *m, const struct cost_tokens *tokens,
                              int depth, bool critical, bool kept);
struct cost cost_second_order_cell(const struct model_sizes *m, const struct cost_tokens *tokens,
                                   int depth, bool critical, bool kept);

struct cost_rates {
    double sgemm, dgemm; /* FLOP/s per worker */
    double bf16;         /* FLOP/s of products of bf16 numbers */
    /* Of forward products, Gram sums and derivatives' products, counted as in f32. */
    double forward, gram, derivatives;
    double read;                     /* bytes/s */
    double correction[COST_PHASE_N]; /* measured / expected seconds; 1: not measured */
    bool measured;                   /* whether sgemm and dgemm are measured */
};
/* Measured rates, in FLOP/s, bf16 being that of products of bf16 numbers. All products are in f32
 * until cost_rates_choose. */
struct cost_rates cost_rates_of(double sgemm, double dgemm, double bf16);
/* Sets the rates of forward products of this kind, and of the Gram sums and derivatives beside
 * them. Of the weights most are quantized ones, which are not exact in bf16. Does nothing to rates
 * that are given. */
void cost_rates_choose(struct cost_rates *r, enum products kind);
/* Rates of a machine that reaches `gflops` GFLOP/s in f32, in which everything is multiplied. */
struct cost_rates cost_rates_given(double gflops);
/* Measures the rates of this process's threads, for a tenth of a second each, once per process.
 * folder: a folder with checkpoints whose read rate is measured, or NULL. ERR_NOMEM. */
MUST_USE enum status cost_rates_measure(const char *folder, struct cost_rates *out, struct err *e);

/* Returns seconds, with reading and computing overlapped; sets seconds[phase] unless NULL. */
double cost_seconds(const struct cost *c, const struct cost_rates *r, double seconds[COST_PHASE_N]);

/* cost_learn adds the measured seconds per phase of a finished record (type checkpoint or cell) and
 * the expected ones. cost_correct makes the corrections of r from these sums; phases that took less
 * than a second in total are not corrected. */
struct cost_measured {
    double expected[COST_PHASE_N], taken[COST_PHASE_N];
};
void cost_learn(struct cost_measured *m, const struct cost *c, const struct cost_rates *r,
                const json_t *record);
/* The same of one phase, whose seconds are a number of the record's; NULL: it has none. */
void cost_learn_phase(struct cost_measured *m, enum cost_phase phase, const struct cost *c,
                      const struct cost_rates *r, const json_t *seconds);
void cost_correct(const struct cost_measured *m, struct cost_rates *r);

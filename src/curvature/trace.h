/* trace: estimates the trace of an operator from random probe vectors of +1 and -1, in total and by
 * tensor: Hutchinson (1990) and Hutch++ (Meyer, Musco, Musco, Woodruff 2021), see
 * docs/math/curvature.md. */
#pragma once
#include "curvature/operator.h"

/* How a vector is cut into tensors: part t is [offset[t], offset[t + 1]). */
struct parts {
    int64_t n;
    const int64_t *offset; // (n + 1)
};

struct trace_options {
    /* Hutchinson: number of probes, each one product. Hutch++: number of products, at least 6: a
     * third finds the range of the large eigenvalues, a third sums over it exactly, the rest are
     * probes of the remainder. */
    int64_t probes;
    /* Hutchinson only: continues until the standard error is at most target |mean|, for at most
     * probes_max probes; 0: exactly `probes`. Such a rule may stop early by chance: start with 8
     * probes or more. */
    double target;
    int64_t probes_max;
    int64_t together; /* probes per call of apply, at least 1; each takes 2 vectors */
    uint64_t seed;    /* probe p is the signs of stream rng_stream(seed, p) */
    bool hutchpp;
    int64_t memory;     /* Hutch++: maximum bytes of its vectors; 0: no limit */
    struct parts parts; /* cover the whole vector in order; n = 0: one part */
};

struct trace_estimate {
    double mean, error; /* error: standard error of the mean; NaN from one probe */
    bool converged;     /* false: probes_max was reached before the target */
    int64_t probes, products;
    int64_t n_parts;
    double *part, *part_error; // (n_parts) mean and error of each part; the means sum to the mean
    double *exact;             // (n_parts) the part of the mean that Hutch++ sums exactly; else 0
    double *samples;           // (probes, n_parts) what each probe contributes
};

/* Of the given number of Hutch++ products, how many find the range, which is also the number of
 * stored vectors; as many more sum over it, and the rest are probes. */
int64_t trace_sketch(int64_t probes);
/* Probes per call of apply: `together`, but no more than there are (Hutch++: in a third). */
int64_t trace_together(int64_t probes, int64_t together, bool hutchpp);

/* Free *out with trace_estimate_free after success. Collective as a is. ERR_USAGE: no probes, or
 * Hutch++ exceeds its memory (the text says how many products would fit); ERR_NUMERIC: a product is
 * not finite; ERR_NOMEM; errors of apply. */
MUST_USE enum status trace_estimate(const struct operator* a, const struct trace_options *o,
                                    struct trace_estimate *out, struct err *e);
void trace_estimate_free(struct trace_estimate *t);
/* Moves a finished estimate into a saved state or out of one (saved.h). */
void trace_estimate_move(struct trace_estimate *t, struct saved_move *m);

/* mean, error (n_groups): element g is that of the sum of the parts t with group[t] = g. The parts
 * of one probe are correlated, so errors are computed from the samples, not from the parts' errors.
 * Local. ERR_NOMEM. */
MUST_USE enum status trace_group(const struct trace_estimate *t, const int64_t *group,
                                 int64_t n_groups, double *mean, double *error, struct err *e);

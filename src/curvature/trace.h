/* trace: the trace of an operator from random probes of +1 and -1, whole and split by tensor.
 * Hutchinson (1990) and Hutch++ (Meyer, Musco, Musco, Woodruff 2021); docs/math/curvature.md. */
#pragma once
#include "curvature/operator.h"
#include <stdbool.h>

/* The vector cut into tensors: part t is [offset[t], offset[t + 1]). */
struct parts {
    int64_t n;
    const int64_t *offset; // (n + 1)
};

struct trace_options {
    /* Hutchinson: probes to take, each one product. Hutch++: products in all, at least 6; a third
     * finds the large eigenvalues, a third sums over them exactly, the rest are probes of what is
     * left. */
    int64_t probes;
    /* Hutchinson only: go on until the standard error is at most target |mean|, but not beyond
     * `most` probes; 0: exactly `probes`. A rule that looks at its own result stops early by
     * chance: take 8 probes or more before it. */
    double target;
    int64_t most;
    int64_t together; /* probes of one call of apply, at least 1: 2 vectors of n each */
    uint64_t seed;    /* probe p is the signs of stream rng_stream(seed, p) */
    bool hutchpp;
    int64_t memory;     /* Hutch++: bytes that its vectors may take; 0: any */
    struct parts parts; /* cover the whole vector in order; n = 0: one part */
};

struct trace_estimate {
    double mean, error; /* error: standard error of the mean; NaN from one probe */
    bool converged;     /* false: `most` was reached before the target */
    int64_t probes, products;
    int64_t n_parts;
    double *part, *part_error; // (n_parts) the same for each part; the parts sum to the mean
    double *exact;             // (n_parts) what Hutch++ knows without probes; else 0
    double *samples;           // (probes, n_parts) what each probe adds to it
};

/* Of so many products of Hutch++ those that find the range, and the vectors it stores; as many sum
 * over it, and the rest are probes. */
int64_t trace_sketch(int64_t probes);
/* Of so many probes how many share a call of apply where `together` may: no more than there are,
 * for Hutch++ of one of its thirds. */
int64_t trace_together(int64_t probes, int64_t together, bool hutchpp);

/* ERR_USAGE: no probes, or Hutch++ beyond its memory (the text says how many products would fit);
 * ERR_NUMERIC: a product is not finite; ERR_NOMEM; what apply returns. */
MUST_USE enum status trace_estimate(const struct operator* a, const struct trace_options *o,
                                    struct trace_estimate *out, struct err *e);
void trace_estimate_free(struct trace_estimate *t);

/* Sums of parts: mean and error (n_groups) of the parts with group[t] = g. The parts of one probe
 * are correlated, so errors come from the samples, not from the parts' errors. ERR_NOMEM. */
MUST_USE enum status trace_group(const struct trace_estimate *t, const int64_t *group,
                                 int64_t n_groups, double *mean, double *error, struct err *e);

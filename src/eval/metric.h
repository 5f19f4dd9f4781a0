/* metric: the metrics that the head computes.
 *
 * A metric accumulates sums over scored positions and computes numbers of a record from them. It is
 * a const struct in its own file (small related ones share a file), and its lines in
 * metric_table.h.
 *
 * All sums are f64, over the positions of a slice in order, then over the slices of a unit in order
 * (head.h). A unit (in a text: a sequence) is scored by one rank, and its sums are copied to the
 * others, so that no sum depends on the number of ranks or threads. */
#pragma once
#include "eval/metric_table.h"
#include "model/sequences.h"
#include "util/json.h"

/* One scored position of one stream, as the head sees it. */
struct position {
    int32_t target;       /* the token whose probability counts; in a text the next one */
    int64_t vocab;        /* V */
    const float *logits;  // (V)
    const float *weights; // (V) probability of token v: scale * weights[v]
    float scale;          /* 1 for the full-precision stream when variants are scored beside it */
    double log_sum;       /* log-probability of token v: logits[v] - log_sum */
    int64_t top;          /* most likely token; the first wins ties */
    const struct position *full; /* the same position of the full-precision stream, whose own `full`
                                    is itself */
};

/* One dataset of one stream, scored. */
struct scored {
    const struct sequences *sequences;
    const double *sum;  // (sequences->n, pitch) of the stream, from the metric's first sum on
    const double *full; // the same of the full-precision stream (equal pointers for that stream)
    int64_t pitch;
};

/* Tokens of sequence i that are scored: all but the first. */
static inline int64_t scored_tokens(const struct scored *x, int64_t i)
{
    int64_t tokens = x->sequences->offset[i + 1] - x->sequences->offset[i];
    return tokens > 1 ? tokens - 1 : 0;
}

/* Mean over all scored tokens of the metric's first sum; NaN when there is no such token. */
double scored_mean(const struct scored *x);

/* The numbers of metric_table.h, each by the sums of its metric; NaN: there is no such number. */
#define METRIC_VALUE(metric, name, ...) double value_##name(const struct scored *x);
METRIC_CELL_FIELDS(METRIC_VALUE)
METRIC_CHECKPOINT_FIELDS(METRIC_VALUE)
/* Mean loss over the scored tokens of sequence i; NaN when it has none. */
double value_sequence_loss(const struct scored *x, int64_t i);

struct metric {
    int n_sums;
    /* Adds the position's contribution to sums (n_sums). Called by many threads in parallel. */
    void (*accumulate)(const struct position *p, double *sums);
};
#define METRIC_DECLARE(name) extern const struct metric metric_##name;
METRICS(METRIC_DECLARE)

/* Which records a number is in: the full-precision checkpoint's, a cell's. */
enum metric_scope { METRIC_CHECKPOINT, METRIC_CELL };

/* Sums of all metrics together: the pitch of rows of sums. */
int64_t metrics_sums(void);
/* The place of a metric's first sum in such a row. */
int64_t metrics_first_sum(const struct metric *m);

/* Calls accumulate of every metric; sums (metrics_sums()). */
void metrics_accumulate(const struct position *p, double *sums);

/* The numbers for a dataset, sequences [first, end) of s, in a record of that scope, and the list
 * "sequence_loss". sum, full (s->n, metrics_sums()): of the stream and of the full-precision one. A
 * new reference; NULL: out of memory. */
json_t *metrics_record(const struct sequences *s, int64_t first, int64_t end, const double *sum,
                       const double *full, enum metric_scope scope);

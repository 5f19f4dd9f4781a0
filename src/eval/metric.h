/* metric: the table of metrics that the head computes.
 *
 * A metric accumulates sums over scored positions and computes fields of a record from them. It is
 * a const struct in its own file (small related ones share a file), a line of the table in
 * metric.c, and one line per field in its kinds of result (measures/cells.c, cells_record.c).
 *
 * All sums are f64, over the positions of a slice in order, then over the slices of a unit in order
 * (head.h). A unit (in a text: a sequence) is scored by one rank, and its sums are copied to the
 * others, so that no sum depends on the number of ranks or threads. */
#pragma once
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

/* Which records have a field: the full-precision checkpoint's, a cell's. */
enum metric_scope { METRIC_CHECKPOINT = 1, METRIC_CELL = 2 };

struct metric_field {
    const char *name; /* in records */
    unsigned scopes;  /* METRIC_CHECKPOINT | METRIC_CELL */
    bool integer;
    double (*value)(const struct scored *x); /* NaN: there is no such number */
    /* Instead of value: the field is a list with a number for each sequence. */
    double (*each)(const struct scored *x, int64_t i);
};

/* A metric's fields, as many as there are, and one without a name, which ends them. */
#define METRIC_FIELDS(...) ((const struct metric_field[]){__VA_ARGS__, {.name = NULL}})

struct metric {
    int n_sums;
    /* Adds the position's contribution to sums (n_sums). Called by many threads in parallel. */
    void (*accumulate)(const struct position *p, double *sums);
    const struct metric_field *fields; /* METRIC_FIELDS; NULL: none */
};

/* The table; NULL after the last line. */
extern const struct metric *const metrics[];
/* The lines whose sums tasks read: minus the log-likelihood of the targets, and how many of them
 * are the most likely tokens. */
extern const struct metric metric_loss, metric_hits;

/* Sums of all metrics together: the pitch of rows of sums. */
int64_t metrics_sums(void);
/* The place of the first sum of a line of the table in such a row. */
int64_t metrics_first_sum(const struct metric *m);

/* Calls accumulate of every metric; sums (metrics_sums()). */
void metrics_accumulate(const struct position *p, double *sums);

/* The fields of a record for a dataset, sequences [first, end) of s, with that scope. sum, full
 * (s->n, metrics_sums()): of the stream and of the full-precision one. A new reference; NULL: out
 * of memory. */
json_t *metrics_record(const struct sequences *s, int64_t first, int64_t end, const double *sum,
                       const double *full, enum metric_scope scope);

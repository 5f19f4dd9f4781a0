/* head: the end of the network: final norm, output matrix, softmax and metrics (metric.h).
 *
 * Output matrix and softmax are computed for one slice of positions at a time, which all belong to
 * one sequence and need not be neighbours. The full-precision log-probabilities of a slice are
 * computed once for all variants. Sums are in f64, in an order that depends on the spans alone.
 * Parallel over slices. Nothing here communicates. */
#pragma once
#include "model/model.h"
#include "util/err.h"

/* Consecutive positions to score: hidden state row + i predicts target[i], and the metrics add to
 * the sums of `unit`. Spans may be parts of sequences; targets may be any tokens. Spans of one
 * sequence follow each other and have the same number `sequence`, which their neighbours do not
 * have. Spans of one position that follow each other at the same row cost one position. */
struct span {
    int64_t row, n;
    const int32_t *target; // (n) borrowed
    int64_t unit, sequence;
};

/* The span of a text: all tokens of sequence i except the first are scored as unit i. */
struct span head_text_span(const struct sequences *s, int64_t i);

/* The sums of the metrics for one stream. */
struct scores {
    int64_t n;   /* units */
    double *sum; // (n, metrics_sums())
};
MUST_USE enum status scores_init(struct scores *s, int64_t n, struct err *e);
void scores_free(struct scores *s);
/* A view of units [first, last). */
struct scores scores_part(const struct scores *s, int64_t first, int64_t last);

/* x (n_streams): final hidden states (tokens, C) of each stream, before the final norm; x[0] is the
 * full-precision one. scores (n_streams): each initialised for all units, which the call fills.
 * ERR_NOMEM. */
MUST_USE enum status head_score(const struct model *m, const struct span *spans, int64_t n_spans,
                                const float *const *x, int64_t n_streams, struct scores *scores,
                                struct err *e);

/* The same of two models with one vocabulary and hidden size: x[0] is of m[0] in full precision,
 * x[1] of m[1]. scores (2). ERR_NOMEM. */
MUST_USE enum status head_compare(const struct model *const m[2], const struct span *spans,
                                  int64_t n_spans, const float *const *x, struct scores *scores,
                                  struct err *e);

/* Bytes that head_score allocates for texts of many slices, without the prepared output matrix;
 * n_variants: streams besides the full-precision one; kind: the model's products. */
int64_t head_bytes(const struct model_shape *m, int64_t threads, int64_t n_variants,
                   enum products kind);

/* logits (T, V) from the final hidden states x (T, C) of any tokens. ERR_NOMEM. */
MUST_USE enum status head_logits(const struct model *m, const float *x, int64_t T, float *logits,
                                 struct err *e);

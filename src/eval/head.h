/* head: what is measured at the end of the network: cross-entropy, KL divergence and top-1
 * agreement.
 *
 * The output matrix and the softmax run over slices of positions, never over all logits. The
 * full-precision log-probabilities of a slice are made once and serve every variant. Sums in f64,
 * in an order that depends on the sequences alone. Parallel inside over slices.
 */
#pragma once
#include "model/model.h"
#include "util/err.h"

/* Scores of one stream. A sequence of T tokens scores its T-1 next tokens. */
struct scores {
    int64_t n;
    double *nll; // (n) sum over the scored tokens of -log p(next), nats
    double *kl;  // (n) sum of KL(p_full || p_stream), nats; 0 for the full-precision stream itself
    int64_t *top1; // (n) scored positions where the most likely token is the full-precision one
                   // (the first wins ties)
};
MUST_USE enum status scores_init(struct scores *s, int64_t n, struct err *e);
void scores_free(struct scores *s);

/* full: final hidden states (tokens, C) of the full-precision stream, before the final norm;
 * stream[i]: those of the variants. full_scores, scores[i]: initialised for s->n sequences.
 * ERR_NOMEM. */
MUST_USE enum status head_score(const struct model *m, const struct sequences *s, const float *full,
                                const float *const *stream, int64_t n_streams,
                                struct scores *full_scores, struct scores *scores, struct err *e);

/* Bytes that head_score takes while it runs, for texts of many slices. */
int64_t head_bytes(const struct model_shape *m, int64_t threads, int64_t n_streams);

/* logits (T, V) from the final hidden states x (T, C) of any tokens. ERR_NOMEM. */
MUST_USE enum status head_logits(const struct model *m, const float *x, int64_t T, float *logits,
                                 struct err *e);

/* Statistics over the sequences that have a scored token (two tokens or more); shorter ones get a
 * NaN in sequence_loss. Mean over sequences of the mean loss of each (the mean over tokens when all
 * are equally long), its standard error over sequences (NaN for one),
 * and the paired statistics of a variant against full precision. Formulas: docs/math/statistics.md.
 */
struct loss_summary {
    double loss, loss_stderr;
    double perplexity;     /* exp(loss) */
    double bits_per_byte;  /* sum nll / (ln 2 * bytes); NaN when bytes are not known */
    int64_t tokens, bytes; /* scored */
    double *sequence_loss; // (n) owned by the summary
    int64_t n;
};
MUST_USE enum status loss_summarise(const struct sequences *s, const struct scores *scores,
                                    struct loss_summary *out, struct err *e);
void loss_summary_free(struct loss_summary *l);

struct paired_summary {
    double delta, delta_stderr; /* mean of the per-sequence differences and its standard error */
    double relative,
        relative_stderr;   /* loss / loss_full - 1; delta method on the paired sequences */
    double kl_divergence;  /* mean over scored tokens, nats */
    double top1_agreement; /* share of scored tokens */
};
void paired_summarise(const struct loss_summary *full, const struct loss_summary *variant,
                      const struct scores *scores, struct paired_summary *out);

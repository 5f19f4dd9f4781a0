/* accuracy: from the log-likelihoods of requests to accuracies, as the harness computes them. */
#pragma once
#include "task/requests.h"
#include "util/json.h"

/* What a model gives to each request. */
struct answers {
    const double *sum; // (requests, pitch) sums of the head: metrics_sums() wide
    int64_t pitch;
    int64_t nll, hits; /* columns: minus the log-likelihood; tokens that are the most likely ones */
};
/* The columns by which the head's sums are read. */
struct answers answers_of(const double *sum);
double answers_log_likelihood(const struct answers *a, int64_t request);

/* A new object {NAME: {"accuracy", "accuracy_stderr", "accuracy_norm", "accuracy_norm_stderr",
 * "items"}, ...}: a task's entry, one for each of its subjects before it. accuracy is the fraction
 * of items whose most likely choice is the right one, accuracy_norm that by log-likelihood per
 * character (null where the harness does not offer it); the first of equal choices counts. Standard
 * errors are those of the mean over items; over subjects, of the pooled variance. A task of
 * subjects is the mean over all their items. NULL: out of memory. */
json_t *accuracy_record(const struct requests *r, const struct answers *a);

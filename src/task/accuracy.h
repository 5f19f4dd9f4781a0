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
double answers_log_likelihood(const struct requests *r, const struct answers *a, int64_t request);

/* Of the items of a task, or of all subjects of one. NaN: there is no such number. */
struct accuracy {
    int64_t items;
    int64_t truncated; /* items of which a request is longer than the model */
    double accuracy;   /* fraction of items whose most likely choice is the right one; the first of
                          equal choices counts */
    double error;      /* standard error of that mean over items; over subjects, of the pooled
                          variance */
    double norm, norm_error; /* by log-likelihood per character; NaN where the harness does not
                                offer it */
};
/* name: a task of r, or one whose subjects r has. */
struct accuracy accuracy_of(const struct requests *r, const struct answers *a, const char *name);

/* What quantizing the model changes in its answers, by the same items. */
struct accuracy_change {
    double change, error; /* of the accuracy; standard error of the mean over items, paired */
    double degradation;   /* -change / (1 - accuracy in full precision): arXiv 2510.06213 */
    int64_t lost, gained; /* items that are right in full precision alone; after it alone */
    double p;             /* mcnemar_exact */
};
struct accuracy_change accuracy_compare(const struct requests *r, const struct answers *full,
                                        const struct answers *a, const char *name);
/* Two-sided probability of lost and gained items at least as different, if both are as likely: the
 * exact test of McNemar (1947), a binomial test. 1 if there are none. */
double mcnemar_exact(int64_t lost, int64_t gained);

/* A new object {NAME: {"accuracy", "accuracy_stderr", "accuracy_norm", "accuracy_norm_stderr",
 * "items", "items_truncated"}, ...}: a task's entry, one for each of its subjects before it. Null:
 * there is no such number. NULL: out of memory. */
json_t *accuracy_record(const struct requests *r, const struct answers *a);

/* The answers to the items of a task as columns, a row a choice: {"subject": [..] (the task itself
 * if it has none), "item" (from 0 in each subject), "choice", "log_likelihood", "tokens", "greedy"
 * (1: each token is the most likely one)}. A new reference; NULL: out of memory. */
json_t *answers_table(const struct requests *r, const struct answers *a, const char *name);
/* Whether each token of the continuation is the most likely one. */
bool answers_greedy(const struct requests *r, const struct answers *a, int64_t request);

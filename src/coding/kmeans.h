/* kmeans: optimal clusters of numbers on a line. */
#pragma once
#include "util/err.h"

/* One number, and what its squared distance counts. */
struct kmeans_point {
    double value, weight;
    int64_t at; /* for the caller */
};

/* Scratch for up to `points` numbers and `clusters` clusters; one per thread. */
struct kmeans;
/* ERR_NOMEM. kmeans_free accepts NULL. */
MUST_USE enum status kmeans_open(int64_t points, int64_t clusters, struct kmeans **out,
                                 struct err *e);
void kmeans_free(struct kmeans *k);
/* Bytes of it. */
int64_t kmeans_bytes(int64_t points, int64_t clusters);

/* centre[i] = the centre (weighted mean) of the cluster of p[i], for that division of p (n), which
 * rises by value, into at most `clusters` runs whose sum of weighted squared distances to their
 * centres is least. Weights are positive. Exact, in O(clusters n log n): the best start of the last
 * run rises with its end, so that the table of Wang and Song 2011 (Ckmeans.1d.dp, R Journal 3(2))
 * is filled by halving. Equal values get the same centre. */
void kmeans_line(struct kmeans *k, const struct kmeans_point *p, int64_t n, int64_t clusters,
                 double *centre);

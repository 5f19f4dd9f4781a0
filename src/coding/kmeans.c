#include "coding/kmeans.h"
#include "util/mem.h"
#include "util/num.h"
#include <math.h>

struct kmeans {
    int64_t n;       /* distinct values */
    int64_t *run;    // (points) number of the distinct value of each point
    double *value;   // (points) distinct values
    double *weight;  // (points + 1) sums of the weights of the values before
    double *first;   // (points + 1) of weight * (value - origin)
    double *second;  // (points + 1) of weight * (value - origin)^2
    double *cost[2]; // (points) cost of the values up to each, with one cluster less and now
    int32_t *start;  // (clusters, points) first value of the last cluster
    int64_t row;     /* points: pitch of start */
};

int64_t kmeans_bytes(int64_t points, int64_t clusters)
{
    const int64_t numbers = 6 * points + 3;
    return numbers * (int64_t)sizeof(double) + points * (int64_t)sizeof(int64_t) +
           clusters * points * (int64_t)sizeof(int32_t);
}

enum status kmeans_open(int64_t points, int64_t clusters, struct kmeans **out, struct err *e)
{
    enum status st = OK;
    const char *what = "clusters of weights";
    struct kmeans *k = NULL;
    TRY(mem_zero(&k, 1, sizeof *k, what, e));
    k->row = points;
    TRY(mem_alloc(&k->run, points, sizeof *k->run, what, e));
    TRY(mem_alloc(&k->value, points, sizeof *k->value, what, e));
    TRY(mem_alloc(&k->weight, points + 1, sizeof *k->weight, what, e));
    TRY(mem_alloc(&k->first, points + 1, sizeof *k->first, what, e));
    TRY(mem_alloc(&k->second, points + 1, sizeof *k->second, what, e));
    for (int i = 0; i < 2; i++) TRY(mem_alloc(&k->cost[i], points, sizeof(double), what, e));
    TRY(mem_alloc(&k->start, clusters * points, sizeof *k->start, what, e));
    *out = k;
done:
    if (st != OK) kmeans_free(k);
    return st;
}

void kmeans_free(struct kmeans *k)
{
    if (!k) return;
    free(k->run);
    free(k->value);
    free(k->weight);
    free(k->first);
    free(k->second);
    free(k->cost[0]);
    free(k->cost[1]);
    free(k->start);
    free(k);
}

/* Joins equal values and sums up; values are taken relative to their weighted mean, so that little
 * is lost where sums are subtracted. */
static void sum_up(struct kmeans *k, const struct kmeans_point *p, int64_t n)
{
    double mean = 0, weight = 0;
    for (int64_t i = 0; i < n; i++) mean += p[i].weight * p[i].value, weight += p[i].weight;
    mean /= weight;
    k->n = 0;
    k->weight[0] = k->first[0] = k->second[0] = 0;
    for (int64_t i = 0; i < n; i++) {
        const double x = p[i].value - mean;
        if (i == 0 || p[i].value != p[i - 1].value) {
            const int64_t m = k->n++;
            k->value[m] = p[i].value;
            k->weight[m + 1] = k->weight[m];
            k->first[m + 1] = k->first[m];
            k->second[m + 1] = k->second[m];
        }
        k->run[i] = k->n - 1;
        k->weight[k->n] += p[i].weight;
        k->first[k->n] += p[i].weight * x;
        k->second[k->n] += p[i].weight * x * x;
    }
}

/* Sum of the weighted squared distances of values [a, b] to their mean. */
static double cost_of(const struct kmeans *k, int64_t a, int64_t b)
{
    const double w = k->weight[b + 1] - k->weight[a], s = k->first[b + 1] - k->first[a];
    const double cost = k->second[b + 1] - k->second[a] - s * s / w;
    return cost > 0 && a < b ? cost : 0;
}

/* Values [low, high] with cluster number q as the last one, which starts in [from, to]. */
static void fill(struct kmeans *k, int64_t q, int64_t low, int64_t high, int64_t from, int64_t to)
{
    if (low > high) return;
    const double *before = k->cost[(q + 1) % 2];
    const int64_t i = low + (high - low) / 2;
    double least = INFINITY;
    int64_t best = from;
    for (int64_t a = from; a <= min64(to, i); a++) {
        const double cost = before[a - 1] + cost_of(k, a, i);
        if (cost < least) least = cost, best = a;
    }
    k->cost[q % 2][i] = least;
    k->start[q * k->row + i] = (int32_t)best;
    fill(k, q, low, i - 1, from, best);
    fill(k, q, i + 1, high, best, to);
}

void kmeans_line(struct kmeans *k, const struct kmeans_point *p, int64_t n, int64_t clusters,
                 double *centre)
{
    sum_up(k, p, n);
    const int64_t m = k->n, most = min64(clusters, m);
    for (int64_t i = 0; i < m; i++) k->cost[0][i] = cost_of(k, 0, i), k->start[i] = 0;
    for (int64_t q = 1; q < most; q++) fill(k, q, q, m - 1, q, m - 1);
    /* The last cluster first; value[] of a cluster becomes its centre. */
    for (int64_t q = most - 1, b = m - 1; q >= 0; q--) {
        const int64_t a = k->start[q * k->row + b];
        double sum = 0;
        const double w = k->weight[b + 1] - k->weight[a];
        for (int64_t i = a; i <= b; i++) sum += (k->weight[i + 1] - k->weight[i]) * k->value[i];
        const double mean = a < b ? sum / w : k->value[a];
        for (int64_t i = a; i <= b; i++) k->value[i] = mean;
        b = a - 1;
    }
    for (int64_t i = 0; i < n; i++) centre[i] = k->value[k->run[i]];
}

/* moments: running mean and standard error of numbers (Welford 1962: no cancellation when they lie
 * close together). Zero-initialise. */
#pragma once
#include <math.h>
#include <stdint.h>

struct moments {
    int64_t n;
    double mean, squares; /* sum of squared deviations from the mean */
};

/* Adds one observation. */
static inline void moments_add(struct moments *m, double x)
{
    double before = x - m->mean;
    m->n++;
    m->mean += before / (double)m->n;
    m->squares += before * (x - m->mean);
}

/* NaN of no number. */
static inline double moments_mean(struct moments m)
{
    return m.n ? m.mean : NAN;
}

/* Standard error of the mean; NaN of fewer than two numbers. */
static inline double moments_stderr(struct moments m)
{
    return m.n > 1 ? sqrt(m.squares / (double)(m.n - 1) / (double)m.n) : NAN;
}

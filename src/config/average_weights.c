/* Weights of averages that imitate a decay of the learning rate (docs/math/training.md). */
#include "config/sweep.h"
#include <math.h>

/* The integral of the rate from 0 to x; it falls from 1 at x = 0 to 0 at x = 1. */
static double rates_until(int shape, double x)
{
    const double pi = acos(-1);
    if (shape == IMITATES_LINEAR) return x - x * x / 2;
    if (shape == IMITATES_ONE_MINUS_SQRT) return x - 2 * x * sqrt(x) / 3;
    return x / 2 + sin(pi * x) / (2 * pi);
}

double average_imitating(int shape, double before, double at, double after)
{
    const double come = rates_until(shape, at) - rates_until(shape, before),
                 go = rates_until(shape, after) - rates_until(shape, at);
    return (at > 0 ? come / (at - before) : 1) - (at < 1 ? go / (after - at) : 0);
}

double average_weight(double decay, int64_t i, int64_t n)
{
    double w = i > 0 && decay > 0 ? 1 - decay : 1;
    for (int64_t j = i + 1; j < n && decay > 0; j++) w *= decay;
    return w;
}

/* Agreement of the full-precision model's most likely token with the first five of a variant. */
#include "eval/metric.h"

static void accumulate(const struct position *p, double *count)
{
    int64_t above = 0;
    for (int64_t v = 0; v < p->vocab; v++) above += p->logits[v] > p->logits[p->full->top];
    *count += above < 5;
}

double value_top5_agreement(const struct scored *x)
{
    return scored_mean(x);
}

const struct metric metric_top5_agreement = {.n_sums = 1, .accumulate = accumulate};

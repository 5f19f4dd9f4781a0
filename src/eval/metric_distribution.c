/* Distance of a variant's next-token distributions from full precision: KL divergence and top-1
 * agreement, means over the scored tokens. And the tokens that a stream itself finds most likely.
 */
#include "eval/metric.h"
#include "math/kern.h"

static void add_kl(const struct position *p, double *sum)
{
    const struct position *full = p->full;
    if (p == full) return;
    *sum += kern_kl(full->logits, full->weights, p->logits, p->weights, p->scale, p->vocab,
                    (float)(p->log_sum - full->log_sum));
}

double value_kl_divergence(const struct scored *x)
{
    return scored_mean(x);
}

const struct metric metric_kl_divergence = {.n_sums = 1, .accumulate = add_kl};

static void add_agreement(const struct position *p, double *count)
{
    *count += p->top == p->full->top;
}

double value_top1_agreement(const struct scored *x)
{
    return scored_mean(x);
}

const struct metric metric_top1_agreement = {.n_sums = 1, .accumulate = add_agreement};

static void add_hit(const struct position *p, double *count)
{
    *count += p->top == p->target;
}

const struct metric metric_hits = {.n_sums = 1, .accumulate = add_hit};

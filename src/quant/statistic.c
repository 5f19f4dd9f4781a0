#include "quant/statistic.h"
#include "linalg/linalg.h"

#define STATISTIC_LINE(upper, lower) [STATISTIC_##upper] = &statistic_##lower,
static const struct statistic *const statistics[] = {QUANT_STATISTICS(STATISTIC_LINE)};

const struct statistic *statistic_at(int i)
{
    return statistics[i];
}

/* --- Gram matrix: sum of x xᵀ, (cols, cols), upper triangle --- */

static int64_t gram_count(int64_t cols)
{
    return cols * cols;
}

static enum status gram_range(double *sums, const struct statistic_range *r, struct err *e)
{
    return gram_add(sums, r->x, r->cols, r->offset, r->n, r->bound, e);
}

static enum status gram_distributed(struct dist *d, const struct statistic_range *r, struct err *e)
{
    return dist_gram_add(d, r->x, r->offset, r->n, r->bound, e);
}

static double gram_flop(int64_t cols)
{
    return (double)cols * (double)cols; /* one triangle */
}

const struct statistic statistic_gram = {
    .name = "Gram matrix",
    .count = gram_count,
    .add = gram_range,
    .reduce = gram_collect,
    .bounded = true,
    .add_distributed = gram_distributed,
    .adding = gram_bytes,
    .reducing = gram_collect_bytes,
    .distributed = dist_bytes,
    .adding_distributed = dist_summing_bytes,
    .flop = gram_flop,
};

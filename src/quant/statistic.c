#include "quant/statistic.h"
#include "math/linalg.h"
#include "util/agree.h"
#include "util/bulk.h"
#include "util/mem.h"
#include <stdlib.h>

#define STATISTIC_LINE(upper, lower) [STATISTIC_##upper] = &statistic_##lower,
static const struct statistic *const statistics[] = {QUANT_STATISTICS(STATISTIC_LINE)};

const struct statistic *statistic_at(int i)
{
    return statistics[i];
}

enum status statistic_reduce(const struct statistic *s, MPI_Comm comm, int owner, double *sums,
                             int64_t cols, struct err *e)
{
    enum status st = OK;
    double *scratch = NULL;
    const int64_t n = s->count(cols);
    int ranks;
    MPI_Comm_size(comm, &ranks);
    if (ranks == 1) return OK;
    if (s->reduce) return s->reduce(comm, sums, cols, e);
    st = mem_alloc(&scratch, bulk_sum_buffer(ranks), sizeof *scratch, "sums of ranks", e);
    TRY(err_agree(comm, st, e));
    TRY(bulk_sum(comm, owner, sums, n, MPI_DOUBLE, scratch, e));
    if (s->everywhere) TRY(bulk_bcast(comm, owner, sums, n * (int64_t)sizeof *sums, e));
done:
    free(scratch);
    return st;
}

int64_t statistic_reduce_bytes(const struct statistic *s, int64_t ranks)
{
    return ranks > 1 && !s->reduce ? bulk_sum_buffer(ranks) * (int64_t)sizeof(double) : 0;
}

/* --- Gram matrix: sum of x xᵀ, (cols, cols), upper triangle --- */

static int64_t gram_count(int64_t cols)
{
    return cols * cols;
}

static enum status gram_range(double *sums, const struct statistic_range *r, struct err *e)
{
    return gram_add(sums, r->x, r->cols, r->offset, r->n, r->bound, products_of_sums(r->products),
                    e);
}

static int64_t gram_adding(int64_t cols, int64_t threads, enum products products)
{
    return gram_bytes(cols, threads, products_of_sums(products));
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
    .bounded = true,
    .add_distributed = gram_distributed,
    .adding = gram_adding,
    .distributed = dist_bytes,
    .adding_distributed = dist_summing_bytes,
    .flop = gram_flop,
};

/* --- asymmetry: sum of (x̃ - x) xᵀ, (cols, cols), x̃ the full-precision model's inputs --- */

static enum status asymmetry_range(double *sums, const struct statistic_range *r, struct err *e)
{
    return gram_cross_add(sums, r->change, r->x, r->cols, r->offset, r->n, r->bound, e);
}

static double asymmetry_flop(int64_t cols)
{
    return 2 * (double)cols * (double)cols;
}

static int64_t asymmetry_adding(int64_t cols, int64_t threads, enum products products)
{
    (void)products;
    return gram_bytes(cols, threads, PRODUCTS_F32);
}

const struct statistic statistic_asymmetry = {
    .name = "differences of inputs",
    .count = gram_count,
    .add = asymmetry_range,
    .paired = true,
    .bounded = true,
    .adding = asymmetry_adding,
    .flop = asymmetry_flop,
};

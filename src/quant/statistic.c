#include "quant/statistic.h"
#include "linalg/linalg.h"
#include "util/num.h"
#include <math.h>

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

/* --- statistics of single channels --- */

enum { STRIP = 64 }; /* columns that one thread sums at a time */

static int64_t channels(int64_t cols)
{
    return cols;
}

static enum status reduce_channels(MPI_Comm comm, double *sums, int64_t cols, MPI_Op op,
                                   struct err *e)
{
    NEED(MPI_Allreduce(MPI_IN_PLACE, sums, (int)cols, MPI_DOUBLE, op, comm) == MPI_SUCCESS, ERR_MPI,
         "MPI_Allreduce failed");
    return OK;
}

static double channels_flop(int64_t cols)
{
    return 2 * (double)cols;
}

/* --- squares: sum of x_j^2, (cols): the diagonal of the Gram matrix --- */

/* Adds columns [first, end). With a bound every square is rounded to a multiple of 2^-50 bound^2,
 * as in gram_add: sums are then exact. */
static void squares_columns(double *sums, const struct statistic_range *r, int64_t first,
                            int64_t end)
{
    for (int64_t t = r->offset[0]; t < r->offset[r->n]; t++)
        for (int64_t j = first; j < end; j++) {
            const double x = (double)r->x[t * r->cols + j];
            const double c = r->bound ? 6 * r->bound[j] * r->bound[j] : 0;
            sums[j] += (x * x + c) - c;
        }
}

static enum status squares_range(double *sums, const struct statistic_range *r, struct err *e)
{
    (void)e;
#pragma omp parallel for
    for (int64_t j = 0; j < r->cols; j += STRIP)
        squares_columns(sums, r, j, min64(j + STRIP, r->cols));
    return OK;
}

static enum status squares_collect(MPI_Comm comm, int owner, double *sums, int64_t cols,
                                   struct err *e)
{
    (void)owner;
    return reduce_channels(comm, sums, cols, MPI_SUM, e);
}

const struct statistic statistic_squares = {
    .name = "mean squares",
    .count = channels,
    .add = squares_range,
    .reduce = squares_collect,
    .everywhere = true,
    .bounded = true,
    .flop = channels_flop,
};

/* --- largest: largest |x_j|, (cols) --- */

static enum status largest_range(double *most, const struct statistic_range *r, struct err *e)
{
    (void)e;
#pragma omp parallel for
    for (int64_t a = 0; a < r->cols; a += STRIP)
        for (int64_t t = r->offset[0]; t < r->offset[r->n]; t++)
            for (int64_t j = a; j < min64(a + STRIP, r->cols); j++)
                most[j] = fmax(most[j], (double)fabsf(r->x[t * r->cols + j]));
    return OK;
}

static enum status largest_collect(MPI_Comm comm, int owner, double *most, int64_t cols,
                                   struct err *e)
{
    (void)owner;
    return reduce_channels(comm, most, cols, MPI_MAX, e);
}

const struct statistic statistic_largest = {
    .name = "largest inputs",
    .count = channels,
    .add = largest_range,
    .reduce = largest_collect,
    .everywhere = true,
    .flop = channels_flop,
};

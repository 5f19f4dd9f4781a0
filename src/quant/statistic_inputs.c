/* Statistics of single input channels and single inputs, which every rank gets. */
#include "quant/statistic.h"
#include "util/num.h"
#include <math.h>

enum { STRIP = 512 }; /* columns that a thread goes through at a time */

static int64_t channels_count(int64_t cols)
{
    return cols;
}

static double channels_flop(int64_t cols)
{
    return 2 * (double)cols;
}

/* A power of two that is at least the root of n. */
static double root_above(int64_t n)
{
    double root = 1;
    while (root * root < (double)n) root *= 2;
    return root;
}

/* Adds what becomes of each input of a range to the sum of its channel. */
static void channels_add(double *sums, const struct statistic_range *r, bool squares)
{
    const double root = root_above(r->tokens);
#pragma omp parallel for schedule(static)
    for (int64_t a = 0; a < r->cols; a += STRIP)
        for (int64_t t = r->offset[0]; t < r->offset[r->n]; t++)
            for (int64_t j = a; j < min64(a + STRIP, r->cols); j++) {
                const double size = (double)fabsf(r->x[t * r->cols + j]);
                const double bound = r->bound ? r->bound[j] : 0;
                const double term = squares ? size * size : size;
                const double anchor = 6 * bound * (squares ? bound : root);
                sums[j] += (term + anchor) - anchor;
            }
}

/* --- magnitude: sum of |x| of each channel, (cols) --- */

/* With a bound every |x| is rounded so that the sums are exact: bound root_above(tokens) is at
 * least their largest value (math/gram.c does the same with products). */
static enum status magnitude_add(double *sums, const struct statistic_range *r, struct err *e)
{
    (void)e;
    channels_add(sums, r, false);
    return OK;
}

const struct statistic statistic_magnitude = {
    .name = "sums of magnitudes",
    .count = channels_count,
    .add = magnitude_add,
    .everywhere = true,
    .bounded = true,
    .flop = channels_flop,
};

/* --- squares: sum of x^2 of each channel, (cols): the diagonal of the Gram matrix --- */

/* With a bound every square is rounded to a multiple of 2^-50 bound^2, as in gram_add: sums are
 * then exact. */
static enum status squares_add(double *sums, const struct statistic_range *r, struct err *e)
{
    (void)e;
    channels_add(sums, r, true);
    return OK;
}

const struct statistic statistic_squares = {
    .name = "sums of squares",
    .count = channels_count,
    .add = squares_add,
    .everywhere = true,
    .bounded = true,
    .flop = channels_flop,
};

/* --- largest: the largest |x| of each channel, (cols) --- */

static enum status largest_add(double *most, const struct statistic_range *r, struct err *e)
{
    (void)e;
#pragma omp parallel for schedule(static)
    for (int64_t a = 0; a < r->cols; a += STRIP)
        for (int64_t t = r->offset[0]; t < r->offset[r->n]; t++)
            for (int64_t j = a; j < min64(a + STRIP, r->cols); j++)
                most[j] = fmax(most[j], (double)fabsf(r->x[t * r->cols + j]));
    return OK;
}

static enum status largest_reduce(MPI_Comm comm, double *most, int64_t cols, struct err *e)
{
    NEED(MPI_Allreduce(MPI_IN_PLACE, most, (int)cols, MPI_DOUBLE, MPI_MAX, comm) == MPI_SUCCESS,
         ERR_MPI, "MPI_Allreduce failed");
    return OK;
}

const struct statistic statistic_largest = {
    .name = "largest inputs",
    .count = channels_count,
    .add = largest_add,
    .reduce = largest_reduce,
    .everywhere = true,
    .flop = channels_flop,
};

/* --- sample: inputs at evenly spaced tokens, (SAMPLES, cols) --- */

static int64_t sample_numbers(int64_t cols)
{
    return SAMPLES * cols;
}

static enum status sample_add(double *sums, const struct statistic_range *r, struct err *e)
{
    int64_t stride = sample_stride(r->tokens), tokens = r->offset[r->n] - r->offset[0];
    const float *x = r->x + r->offset[0] * r->cols;
    (void)e;
    for (int64_t k = (r->first + stride - 1) / stride; k * stride < r->first + tokens; k++)
        for (int64_t j = 0; j < r->cols; j++)
            sums[k * r->cols + j] = (double)x[(k * stride - r->first) * r->cols + j];
    return OK;
}

/* A token is on one rank and zero on the others: the sum is a copy. */
const struct statistic statistic_sample = {
    .name = "sampled inputs",
    .count = sample_numbers,
    .add = sample_add,
    .everywhere = true,
};

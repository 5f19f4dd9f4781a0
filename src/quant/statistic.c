#include "quant/statistic.h"
#include "math/linalg.h"
#include "util/agree.h"
#include "util/bulk.h"
#include "util/mem.h"
#include "util/num.h"
#include <math.h>

#define STATISTIC_LINE(upper, lower) [STATISTIC_##upper] = &statistic_##lower,
static const struct statistic *const statistics[] = {QUANT_STATISTICS(STATISTIC_LINE)};

const struct statistic *statistic_at(int i)
{
    return statistics[i];
}

enum status statistic_reduce(const struct statistic *s, MPI_Comm comm, int owner, double *sums,
                             int64_t cols, struct err *e)
{
    AUTO_FREE double *scratch = NULL;
    const int64_t n = s->count(cols);
    int ranks;
    MPI_Comm_size(comm, &ranks);
    if (ranks == 1) return OK;
    if (s->reduce) return s->reduce(comm, sums, cols, e);
    enum status st =
        mem_alloc(&scratch, bulk_sum_buffer(ranks), sizeof *scratch, "sums of ranks", e);
    PASS(err_agree(comm, st, e));
    PASS(bulk_sum(comm, owner, sums, n, MPI_DOUBLE, scratch, e));
    if (s->everywhere) PASS(bulk_bcast(comm, owner, sums, n * (int64_t)sizeof *sums, e));
    return OK;
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

/* --- single input channels and single inputs --- */

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

/* The largest |x| of each channel, or its largest mean over a sequence. */
static void channels_most(double *most, const struct statistic_range *r, bool means)
{
#pragma omp parallel for schedule(static)
    for (int64_t a = 0; a < r->cols; a += STRIP)
        for (int64_t i = 0; i < r->n; i++) {
            const int64_t n = min64(STRIP, r->cols - a), end = r->offset[i + 1];
            double own[STRIP] = {0};
            for (int64_t t = r->offset[i]; t < end; t++)
                for (int64_t j = 0; j < n; j++) {
                    const double size = (double)fabsf(r->x[t * r->cols + a + j]);
                    own[j] = means ? own[j] + size : fmax(own[j], size);
                }
            for (int64_t j = 0; j < n; j++)
                most[a + j] =
                    fmax(most[a + j], means ? own[j] / (double)(end - r->offset[i]) : own[j]);
        }
}

static enum status most_reduce(MPI_Comm comm, double *most, int64_t cols, struct err *e)
{
    NEED(MPI_Allreduce(MPI_IN_PLACE, most, (int)cols, MPI_DOUBLE, MPI_MAX, comm) == MPI_SUCCESS,
         ERR_MPI, "MPI_Allreduce failed");
    return OK;
}

/* Statistics of channels, (cols): what becomes of them, and what else the statistic has. */
#define OF_CHANNELS(lower, words, adds, how, ...)                                                  \
    static enum status lower##_add(double *sums, const struct statistic_range *r, struct err *e)   \
    {                                                                                              \
        (void)e;                                                                                   \
        adds(sums, r, how);                                                                        \
        return OK;                                                                                 \
    }                                                                                              \
    const struct statistic statistic_##lower = {.name = words,                                     \
                                                .count = channels_count,                           \
                                                .add = lower##_add,                                \
                                                .everywhere = true,                                \
                                                .flop = channels_flop,                             \
                                                __VA_ARGS__};

/* With a bound each term is rounded so that the sums are exact: a square to a multiple of
 * 2^-50 bound^2, as in gram_add; |x|, whose sum is at most bound root_above(tokens), alike. */
OF_CHANNELS(magnitude, "sums of magnitudes", channels_add, false, .bounded = true)
OF_CHANNELS(squares, "sums of squares", channels_add, true, .bounded = true)
OF_CHANNELS(largest, "largest inputs", channels_most, false, .reduce = most_reduce)
OF_CHANNELS(largest_full, "largest inputs in full precision", channels_most, false,
            .reduce = most_reduce, .of_full = true)
OF_CHANNELS(squares_full, "squares of inputs in full precision", channels_add, true,
            .bounded = true, .of_full = true)
OF_CHANNELS(mean_full, "largest mean inputs of a sequence in full precision", channels_most, true,
            .reduce = most_reduce, .of_full = true)

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

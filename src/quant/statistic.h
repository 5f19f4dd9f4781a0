/* statistic: statistics of a stage's inputs that methods need.
 *
 * A statistic is an array of count(cols) f64 sums over the calibration tokens, for a stage with
 * cols input channels. The visit sums it range by range on every rank, reduces it over the ranks,
 * and passes it to all methods of the visit that request it. A new one is a struct and a line in
 * quant_table.h. */
#pragma once
#include "math/dist.h"
#include "math/products.h"
#include "quant/quant_table.h"
#include "util/err.h"
#include <mpi.h>

#define STATISTIC_NUMBER(upper, lower) STATISTIC_##upper,
enum { QUANT_STATISTICS(STATISTIC_NUMBER) STATISTIC_N };

/* The bit of a statistic, for quant_method.statistics: WANTS(STATISTIC_GRAM) | ... */
#define WANTS(statistic) (1u << (statistic))

/* Inputs of a stage: whole sequences. */
struct statistic_range {
    const float *x; // (offset[n], cols)
    int64_t cols;
    const int64_t *offset; // (n + 1) first token of each sequence, relative to x
    int64_t n;
    const double *bound; // (cols) powers of two from gram_bound_make, with which the sums are the
                         // same bit for bit in any order and grouping; NULL: not required
    int64_t tokens;      /* total number of tokens summed by all ranks */
    const float *change; // (offset[n], cols) inputs of the full-precision model minus x; NULL
                         // unless a statistic is paired
    int64_t first;       /* position of the range's first token among these */
    enum products products; /* of the forward passes; not AUTO */
};

struct statistic {
    const char *name; /* for messages */
    /* Numbers in the array. */
    int64_t (*count)(int64_t cols);
    /* Adds a range to sums. Local; parallel inside. */
    enum status (*add)(double *sums, const struct statistic_range *r, struct err *e);
    /* Optional: combines the ranks' arrays in place of statistic_reduce. Collective. */
    enum status (*reduce)(MPI_Comm comm, double *sums, int64_t cols, struct err *e);
    bool paired;     /* it needs statistic_range.change, and thus inputs of the variant's own */
    bool everywhere; /* all ranks get the sums */
    bool of_full;    /* always of the full-precision model's inputs, once for all variants */
    bool bounded;    /* its reproducible form needs bounds, which need a pass over the inputs */
    /* Adds a range to the form distributed over the ranks, for stages with many channels; NULL:
     * there is no such form. Collective; every rank passes one range per call, an empty one if it
     * has none left. */
    enum status (*add_distributed)(struct dist *d, const struct statistic_range *r, struct err *e);

    /* For plans, NULL: negligible. Bytes of add besides the sums; bytes per rank of the distributed
     * form, and of adding to it; FLOPs per token. */
    int64_t (*adding)(int64_t cols, int64_t threads, enum products products);
    int64_t (*distributed)(int64_t cols, int64_t ranks);
    int64_t (*adding_distributed)(int64_t cols);
    double (*flop)(int64_t cols);
};

/* Statistic SAMPLE is not a sum: row k is the input at token k * sample_stride(tokens), for the
 * first sample_count(tokens) of SAMPLES rows. AWQ's packages take these tokens for their clip
 * search: every (tokens / 512)-th, so that there are up to 1023. */
enum { SAMPLES = 1023, SAMPLES_WANTED = 512 };
static inline int64_t sample_stride(int64_t tokens)
{
    return tokens < SAMPLES_WANTED ? 1 : tokens / SAMPLES_WANTED;
}
static inline int64_t sample_count(int64_t tokens)
{
    int64_t stride = sample_stride(tokens);
    return (tokens + stride - 1) / stride;
}

#define STATISTIC_DECLARE(upper, lower) extern const struct statistic statistic_##lower;
QUANT_STATISTICS(STATISTIC_DECLARE)

/* sums = their sums over the ranks of comm, added in the order of the ranks, on rank `owner` or, if
 * the statistic says so, on all. Collective. ERR_NOMEM, ERR_MPI. */
MUST_USE enum status statistic_reduce(const struct statistic *s, MPI_Comm comm, int owner,
                                      double *sums, int64_t cols, struct err *e);
/* Bytes of its buffer. */
int64_t statistic_reduce_bytes(const struct statistic *s, int64_t ranks);

/* The i-th of STATISTIC_N. */
const struct statistic *statistic_at(int i);

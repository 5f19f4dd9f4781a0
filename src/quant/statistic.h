/* statistic: what methods want to know of the inputs of a stage.
 *
 * A statistic is a sum over the calibration tokens, `count` numbers in f64 for a stage with so many
 * input channels. The visit sums it range by range on every rank, reduces it over the ranks, and
 * gives it to all methods of the visit that name it. A new one is a struct and a line in
 * quant_table.h.
 */
#pragma once
#include "linalg/dist.h"
#include "quant/quant_table.h"
#include "util/err.h"
#include <mpi.h>

#define STATISTIC_NUMBER(upper, lower) STATISTIC_##upper,
enum { QUANT_STATISTICS(STATISTIC_NUMBER) STATISTIC_N };

/* The set of one, for quant_method.statistics: WANTS(STATISTIC_GRAM) | ... */
#define WANTS(statistic) (1u << (statistic))

/* Inputs of a stage: whole sequences. */
struct statistic_range {
    const float *x; // (offset[n], cols)
    int64_t cols;
    const int64_t *offset; // (n + 1) first token of each sequence, relative to x
    int64_t n;
    const double *bound; // (cols) powers of two, see gram_bound_make: `add` makes sums that are
                         // equal bit for bit in whatever order and grouping; NULL: as it likes
    int64_t tokens;      /* that are summed in all, by all ranks */
};

struct statistic {
    const char *name; /* for messages */
    /* How many numbers it has. */
    int64_t (*count)(int64_t cols);
    /* Adds a range. This rank by itself; parallel. */
    enum status (*add)(double *sums, const struct statistic_range *r, struct err *e);
    /* Sums over the ranks of comm, collective: into the rank `owner`, or into all of them. */
    enum status (*reduce)(MPI_Comm comm, int owner, double *sums, int64_t cols, struct err *e);
    bool everywhere; /* reduce gives it to all ranks */
    bool bounded;    /* its reproducible form needs bounds, which take a pass over the inputs */
    /* Its form distributed over the ranks, for stages of many channels; NULL: none. Collective;
     * every rank passes one range per call, an empty one where it has none left. */
    enum status (*add_distributed)(struct dist *d, const struct statistic_range *r, struct err *e);

    /* For plans: bytes that add and reduce take while they run, beside the sums; of the distributed
     * form the bytes of a rank and of adding; FLOPs of a token. NULL: none worth counting. */
    int64_t (*adding)(int64_t cols, int64_t threads);
    int64_t (*reducing)(int64_t cols, int64_t ranks);
    int64_t (*distributed)(int64_t cols, int64_t ranks);
    int64_t (*adding_distributed)(int64_t cols);
    double (*flop)(int64_t cols);
};

#define STATISTIC_DECLARE(upper, lower) extern const struct statistic statistic_##lower;
QUANT_STATISTICS(STATISTIC_DECLARE)

/* The i-th of STATISTIC_N. */
const struct statistic *statistic_at(int i);

/* grids: the grids that a method's options ask for (coding/grid.h, coding/floats.h). */
#pragma once
#include "coding/grid.h"
#include "quant/quant.h"

/* The kind of grid that the options request at a bit-width. */
static inline struct grid_kind grid_kind_of(int64_t bits, const struct quant_options *o)
{
    return (struct grid_kind){.bits = bits,
                              .symmetric = o->symmetric,
                              .search = o->range_search,
                              .dtype = o->scale_dtype,
                              .form = o->narrow_range ? GRID_AWQ : GRID_GPTQ,
                              .factor = o->range_factor,
                              .codes = o->codes,
                              .rows = o->codes == CODES_INTEGER ? o->scale_rows : 1};
}

/* quant_method.options of these grids, outlier columns, mixing and correction (mixing.h). */
#define GRID_OPTIONS                                                                               \
    "group_size symmetric narrow_range range_search scale_dtype mixing mixing_seed codes "         \
    "scale_rows range_factor outlier_columns outlier_bits outlier_score outlier_least "            \
    "outlier_relative down_bits lqer_rank"

/* Columns of a group: group_size, at most a whole row. */
static inline int64_t grid_group(const struct quant_options *o, int64_t cols)
{
    return o->group_size < 0 || o->group_size > cols ? cols : o->group_size;
}

/* Columns on the method's grids: the first of grid_order_outliers; outlier columns follow. */
static inline int64_t grid_columns(const struct quant_options *o, int64_t cols)
{
    return cols - o->outlier_columns;
}
/* order (n) = the columns by ascending score, equal ones by number. Local. ERR_NOMEM. */
MUST_USE enum status grid_order(const double *score, int64_t n, int64_t *order, struct err *e);
/* *order (cols) = the columns by the score of their inputs that the options name, which the caller
 * frees, also after a failure; NULL without outlier columns. Local. ERR_SHAPE: no other column is
 * left; ERR_NOMEM. */
MUST_USE enum status grid_order_outliers(const struct quant_input *in,
                                         const struct quant_options *o, int64_t cols,
                                         int64_t **order, struct err *e);
/* Rounds the outlier columns of this rank's rows of q (rows, cols) to outlier_bits, with a
 * symmetric range for each row. ERR_NOMEM. */
MUST_USE enum status grid_outliers(const struct quant_job *job, const int64_t *order, float *q,
                                   struct err *e);

/* quant_method.describe_grids for methods whose grids are those of grid_kind_of. */
MUST_USE enum status grid_describe(const struct quant_options *o, struct quant_grid_form *out,
                                   struct err *e);
/* Copies the grid of a tile that starts at `row` to the job's grids as that of the group; does
 * nothing if the job requests none. */
void grid_note(const struct quant_job *job, int64_t row, int64_t group, const struct grid *g);

/* Stored bits per weight: codes (five ternary ones in a byte), scales, zeros of integer codes, and
 * where columns are. */
double grid_bits(const struct quant_job *job);
/* FLOPs of rounding, including the search of ranges, for plans. */
double grid_flop(int64_t rows, int64_t cols, const struct quant_options *o);

/* quant_method.only_bits of methods with the option `codes`. */
int64_t grid_only_bits(const struct quant_options *o);

/* Checks codes, scale_rows and outlier_columns against the other options. ERR_USAGE. */
MUST_USE enum status grid_check(const struct quant_options *o, struct err *e);

/* Where rows share a scale, or the matrix has one: job->shared = *shared = the numbers of all its
 * groups (largest or mean magnitudes of the weights of job->w), which the caller frees; else NULL.
 * Collective on the team. ERR_NOMEM, ERR_MPI. */
MUST_USE enum status grid_share(struct quant_job *job, double **shared, struct err *e);
/* The number of the group of a tile that starts at `row`; NULL: its own. */
const double *grid_shared_at(const struct quant_job *job, int64_t row, int64_t group);

#include "quant/grids.h"
#include "activation/activation.h"
#include "coding/floats.h"
#include "quant/job.h"
#include "util/mem.h"
#include "util/num.h"
#include <math.h>

enum status quant_grid_form_of(const struct quant_method *method, const struct quant_options *o,
                               struct quant_grid_form *out, struct err *e)
{
    NEED(method->describe_grids, ERR_USAGE,
         "the weights of method %s are no codes of integer grids", method->name);
    NEED(o->mixing == MIXING_NONE, ERR_USAGE,
         "mixing: no packed format has weights that are mixed back");
    NEED(o->codes == CODES_INTEGER, ERR_USAGE, "codes: packed formats have integer codes");
    NEED(o->outlier_columns == 0 && o->down_bits == 0, ERR_USAGE,
         "%s: packed formats have one width", o->outlier_columns ? "outlier_columns" : "down_bits");
    NEED(o->lqer_rank == 0, ERR_USAGE, "lqer_rank: no packed format has a correction");
    return method->describe_grids(o, out, e);
}

enum status quant_grids_init(struct quant_grids *g, const struct quant_options *o, int64_t rows,
                             int64_t cols, struct err *e)
{
    const int64_t size = cols > 0 ? grid_group(o, cols) : 1;
    *g = (struct quant_grids){.groups = (cols + size - 1) / size};
    PASS(mem_zero(&g->grid, rows * g->groups * 2, sizeof *g->grid, "grids", e));
    PASS(mem_alloc(&g->group, cols, sizeof *g->group, "groups of columns", e));
    for (int64_t j = 0; j < cols; j++) g->group[j] = (int32_t)(j / size);
    return OK;
}

void quant_grids_free(struct quant_grids *g)
{
    free(g->grid);
    free(g->group);
    free(g->codes);
    free(g->signs);
    *g = (struct quant_grids){0};
}

bool quant_grids_integers(const struct quant_grids *g, int64_t bits, int64_t cols,
                          struct integer_grids *out)
{
    int64_t size = 0;
    while (size < cols && g->group[size] == 0) size++;
    *out = (struct integer_grids){bits, size, g->grid};
    if (g->columns || g->rows || !integers_fit(bits, size)) return false;
    for (int64_t j = size; j < cols; j++)
        if (g->group[j] != j / size) return false;
    return g->groups == (cols + size - 1) / size;
}

enum status quant_grids_codes(const struct quant_grids *g, int64_t i, const float *w, int64_t cols,
                              int64_t bits, uint8_t *code, struct err *e)
{
    const double most = (double)((1 << bits) - 1), miss = 0.01;
    for (int64_t j = 0; j < cols; j++) {
        const double *grid = g->grid + (i * g->groups + g->group[j]) * 2;
        double x = (double)w[j];
        if (g->columns) x *= (double)g->columns[j];
        if (g->rows) x /= (double)g->rows[i];
        /* A scale that is rounded to 0 makes all weights of its group 0. */
        const double at = (grid[0] > 0 ? x / grid[0] : 0) + grid[1], near = nearbyint(at);
        NEED(near >= 0 && near <= most && fabs(at - near) < miss, ERR_NUMERIC,
             "the weight in row %lld, column %lld is %g, no code of its grid (%g)", (long long)i,
             (long long)j, (double)w[j], at);
        code[j] = (uint8_t)near;
    }
    return OK;
}

enum status grid_describe(const struct quant_options *o, struct quant_grid_form *out, struct err *e)
{
    (void)e;
    *out = (struct quant_grid_form){.group_size = o->group_size,
                                    .symmetric = o->symmetric,
                                    .ordered = o->order == ORDER_ACTIVATION && o->group_size > 0 &&
                                               !o->static_groups,
                                    .f16 = o->scale_dtype != SCALE_F32};
    return OK;
}

void grid_note(const struct quant_job *job, int64_t row, int64_t group, const struct grid *g)
{
    const int64_t rows = min64(job->rows - row, TILE_ROWS);
    for (int64_t r = 0; job->grids && r < rows; r++) {
        double *to = job->grids->grid + ((row + r) * job->grids->groups + group) * 2;
        to[0] = (double)g->stored[r];
        to[1] = (double)g->zero[r];
    }
}

/* --- plans --- */

static double float_bits(const struct quant_job *job, int64_t groups)
{
    const struct quant_options *o = job->options;
    const struct float_format *f = float_format_of(o->codes);
    const double rows = (double)job->rows, cols = (double)(job->cols > 0 ? job->cols : 1);
    const double code = o->codes == CODES_TERNARY ? 8 * ceil(cols / 5) / cols : (double)f->bits;
    const bool eight = f->scale == FLOAT_POWER || f->scale == FLOAT_TWO_LEVELS;
    const double scale = eight ? 8 : o->scale_dtype == SCALE_F32 ? 32 : 16;
    const double high = o->scale_rows == 1    ? rows
                        : o->scale_rows == -1 ? 1
                                              : ceil(rows / (double)o->scale_rows);
    const double whole = f->scale == FLOAT_TWO_LEVELS ? 32 : 0;
    const bool scattered = o->order == ORDER_ACTIVATION && !o->static_groups && groups > 1;
    return code + (scale * (double)groups * high + whole) / (rows * cols) +
           (scattered ? 32 / rows : 0);
}

static bool outliers_rounded(const struct quant_options *o)
{
    return o->outlier_columns > 0 && o->outlier_bits != ACTIVATION_BITS_NONE;
}

double grid_bits(const struct quant_job *job)
{
    const struct quant_options *o = job->options;
    const int64_t cols = job->cols > 0 ? job->cols : 1, own = grid_columns(o, cols);
    const int64_t group = max64(grid_group(o, own), 1), groups = (own + group - 1) / group;
    if (o->codes != CODES_INTEGER) return float_bits(job, groups);
    const double n = (double)cols, rows = (double)job->rows, outliers = (double)o->outlier_columns;
    /* Where an order of columns scatters groups, formats have 32 bits a column for its group. */
    const bool moves = o->order == ORDER_ACTIVATION || o->outlier_columns > 0;
    const bool scattered = moves && !o->static_groups && groups > 1;
    const double more =
        outliers * ((double)(o->outlier_bits - job->bits) + (scattered ? 0 : 32 / rows)) +
        (outliers_rounded(o) ? 16 : 0);
    const double scales = ceil(rows / (double)o->scale_rows) / rows;
    return (double)job->bits + scales * (double)(groups * (16 + job->bits)) / n +
           (scattered ? 32 / rows : 0) + more / n;
}

/* FLOPs of rounding a weight (scale, division, clamp, code), and of a range that is tried. */
enum { FLOP_ROUND = 40, FLOP_RANGE = 8 };

double grid_flop(int64_t rows, int64_t cols, const struct quant_options *o)
{
    double weight = FLOP_ROUND;
    if (o->range_search > 0) weight += GRID_RANGES * FLOP_RANGE;
    return weight * (double)rows * (double)cols;
}

/* --- options --- */

int64_t grid_only_bits(const struct quant_options *o)
{
    return float_format_of(o->codes)->bits; /* 0 for integers */
}

enum status grid_check(const struct quant_options *o, struct err *e)
{
    const bool alone = o->scale_rows == 1;
    NEED(o->range_factor > 0, ERR_USAGE, "range_factor: expected a number above 0 up to 1");
    NEED(o->outlier_columns == 0 || (o->codes == CODES_INTEGER && o->mixing == MIXING_NONE &&
                                     o->order == ORDER_NONE && !o->static_groups),
         ERR_USAGE,
         "outlier_columns: the columns are ordered by their inputs, with integer codes; leave out "
         "codes, mixing, order and static_groups");
    if (o->codes == CODES_INTEGER) {
        NEED(o->scale_rows > 0 && TILE_ROWS % o->scale_rows == 0 &&
                 (alone || !(o->range_search > 0)),
             ERR_USAGE,
             "scale_rows: %lld; expected 1 or, without range_search, a divisor of %d for integer "
             "codes",
             (long long)o->scale_rows, TILE_ROWS);
        return OK;
    }
    const struct float_format *f = float_format_of(o->codes);
    NEED(o->symmetric && o->range_search == 0 && o->range_factor == 1, ERR_USAGE,
         "codes: %s are symmetric, and the search for a smaller range is one of integer codes; "
         "leave out symmetric: false, range_search and range_factor",
         f->name);
    NEED(f->group == 0 || o->group_size == f->group, ERR_USAGE,
         "codes: %s has groups of %lld columns; say group_size: %lld", f->name, (long long)f->group,
         (long long)f->group);
    NEED(alone || f->group == 0, ERR_USAGE, "scale_rows: each row of %s has scales of its own",
         f->name);
    NEED(alone || o->scale_rows == -1 || o->scale_rows % TILE_ROWS == 0, ERR_USAGE,
         "scale_rows: %lld; expected 1, -1 (all rows) or a multiple of %d",
         (long long)o->scale_rows, TILE_ROWS);
    NEED(alone || o->group_size < 0 || o->static_groups || o->order != ORDER_ACTIVATION, ERR_USAGE,
         "scale_rows: with order: activation the scales must be known before; say static_groups: "
         "true");
    return OK;
}

/* --- outlier columns --- */

enum status grid_order(const double *score, int64_t n, int64_t *order, struct err *e)
{
    int32_t *sorted;
    PASS(mem_alloc(&sorted, n, sizeof *sorted, "the order of columns", e));
    const enum status st = activation_order(score, n, sorted, e);
    for (int64_t j = 0; st == OK && j < n; j++) order[j] = sorted[j];
    free(sorted);
    return st;
}

enum status grid_order_outliers(const struct quant_input *in, const struct quant_options *o,
                                int64_t cols, int64_t **order, struct err *e)
{
    *order = NULL;
    if (o->outlier_columns == 0) return OK;
    NEED(o->outlier_columns < cols, ERR_SHAPE, "outlier_columns: %lld of %lld columns",
         (long long)o->outlier_columns, (long long)cols);
    PASS(mem_alloc(order, cols, sizeof **order, "the order of columns", e));
    return grid_order(in->statistic[outlier_statistic(o->outlier_score)], cols, *order, e);
}

enum status grid_outliers(const struct quant_job *job, const int64_t *order, float *q,
                          struct err *e)
{
    const struct quant_options *o = job->options;
    const struct activation_grid own = {.bits = o->outlier_bits, .symmetric = true, .clip = 1};
    const int64_t n = o->outlier_columns;
    int64_t first, end;
    float *x = NULL;
    if (!outliers_rounded(o)) return OK;
    PASS(mem_alloc(&x, n, sizeof *x, "outlier columns", e));
    team_own_rows(job->team, job->rows, &first, &end);
    order += grid_columns(o, job->cols);
    for (int64_t i = first; i < end; i++) {
        float *row = q + i * job->cols;
        for (int64_t j = 0; j < n; j++) x[j] = row[order[j]];
        activation_row(&own, -1, x, n);
        for (int64_t j = 0; j < n; j++) row[order[j]] = x[j];
    }
    free(x);
    return OK;
}

/* --- numbers that rows share --- */

struct shares {
    const struct quant_job *job;
    int64_t group, groups;
    bool mean;
    double *tiles; // (tiles, groups) sums or largest magnitudes
};

static void tile_share(const struct shares *s, int64_t tile)
{
    const struct quant_job *job = s->job;
    const int64_t row = tile * TILE_ROWS, end = min64(row + TILE_ROWS, job->rows);
    for (int64_t k = 0; k < s->groups; k++) {
        const int64_t a = k * s->group, n = min64(s->group, job->cols - a);
        double size = 0;
        for (int64_t i = row; i < end; i++) {
            const float *w = job->w + i * job->cols + a;
            if (!s->mean) size = fmax(size, (double)row_largest(w, n));
            for (int64_t j = 0; j < n && s->mean; j++) size += fabs((double)w[j]);
        }
        s->tiles[tile * s->groups + k] = size;
    }
}

/* Joins the numbers of tiles that share a scale, in their place. */
static void tiles_join(const struct shares *s)
{
    const struct quant_job *job = s->job;
    const int64_t n = tile_count(job->rows), rows = job->options->scale_rows;
    const int64_t together = rows > 1 ? rows / TILE_ROWS : n;
    for (int64_t first = 0; first < n; first += together)
        for (int64_t k = 0; k < s->groups; k++) {
            const int64_t end = min64(first + together, n);
            const int64_t high = min64(end * TILE_ROWS, job->rows) - first * TILE_ROWS;
            const int64_t wide = min64(s->group, job->cols - k * s->group);
            double size = 0;
            for (int64_t t = first; t < end; t++) {
                const double more = s->tiles[t * s->groups + k];
                size = s->mean ? size + more : fmax(size, more);
            }
            if (s->mean) size /= (double)(high * wide);
            for (int64_t t = first; t < end; t++) s->tiles[t * s->groups + k] = size;
        }
}

enum status grid_share(struct quant_job *job, double **shared, struct err *e)
{
    const struct quant_options *o = job->options;
    const struct float_format *f = float_format_of(o->codes);
    const bool whole = f->scale == FLOAT_TWO_LEVELS;
    int64_t first, end;
    *shared = NULL;
    if (o->codes == CODES_INTEGER || (!whole && o->scale_rows == 1)) return OK;
    struct shares s = {.job = job,
                       .group = whole ? job->cols : grid_group(o, job->cols),
                       .mean = f->scale == FLOAT_MEAN};
    s.groups = job->cols > 0 ? (job->cols + s.group - 1) / s.group : 1;
    PASS(team_agree(job->team,
                    mem_zero(shared, tile_count(job->rows) * s.groups, sizeof **shared,
                             "scales that rows share", e),
                    e));
    s.tiles = *shared;
    team_own_rows(job->team, job->rows, &first, &end);
#pragma omp parallel for
    for (int64_t t = first / TILE_ROWS; t < tile_count(end); t++) tile_share(&s, t);
    PASS(team_gather(job->team, s.tiles, s.groups, TILE_ROWS, job->rows, e));
    tiles_join(&s);
    job->shared = s.tiles;
    return OK;
}

const double *grid_shared_at(const struct quant_job *job, int64_t row, int64_t group)
{
    const struct quant_options *o = job->options;
    if (!job->shared) return NULL;
    if (float_format_of(o->codes)->scale == FLOAT_TWO_LEVELS) return job->shared;
    const int64_t size = grid_group(o, job->cols), groups = (job->cols + size - 1) / size;
    return job->shared + row / TILE_ROWS * groups + group;
}

/* Round to nearest: every weight independently, with one grid per group of columns. */
#include "quant/grids.h"
#include "quant/job.h"
#include "quant/mixing.h"
#include "util/mem.h"
#include "util/num.h"

/* A tile, group by group in the given order (NULL: as they are); t (group, TILE_ROWS). */
static void tile_quantize(const struct quant_job *job, const void *order, int64_t row,
                          void *scratch)
{
    const int64_t own = grid_columns(job->options, job->cols);
    const int64_t group = grid_group(job->options, own);
    const struct tile_columns columns = {.order = order};
    float *t = scratch;
    struct grid g;
    for (int64_t a = 0, n; a < job->cols; a += n) {
        n = min64(group, (a < own ? own : job->cols) - a);
        struct grid_kind kind = grid_kind_of(job->bits, job->options);
        kind.shared = grid_shared_at(job, row, a / group);
        tile_load(t, TILE_ROWS, job->w, job->rows, job->cols, row, a, n, &columns);
        grid_fit(&g, t, n, kind);
        grid_note(job, row, a / group, &g);
        for (int64_t j = 0; a < own && j < n; j++)
            grid_round_stored(t + j * TILE_ROWS, t + j * TILE_ROWS, &g, job->bits);
        tile_store(job->q, job->rows, job->cols, row, a, n, order, t);
    }
}

static int64_t tile_bytes(const struct quant_options *o, int64_t cols)
{
    return grid_group(o, cols) * TILE_ROWS * (int64_t)sizeof(float);
}

static enum status rtn_plain(const struct quant_job *all, struct quant_report *report,
                             struct err *e)
{
    struct quant_job job = *all;
    AUTO_FREE double *shared = NULL;
    AUTO_FREE int64_t *order = NULL;
    PASS(grid_share(&job, &shared, e));
    PASS(team_agree(job.team, grid_order_outliers(job.input, job.options, job.cols, &order, e), e));
    PASS(job_rows(&job, TILE_ROWS, tile_quantize, order, tile_bytes(job.options, job.cols), e));
    PASS(team_agree(job.team, grid_outliers(&job, order, job.q, e), e));
    return job_report(&job, grid_bits(&job), report, e);
}

static enum status rtn_run(const struct quant_job *job, struct quant_report *report, struct err *e)
{
    return mixing_run(job, rtn_plain, report, e);
}

static enum status rtn_check(int64_t bits, const struct quant_options *o, struct err *e)
{
    (void)bits;
    return grid_check(o, e);
}

static void rtn_memory(const struct quant_options *o, const struct quant_extent *x,
                       struct quant_memory *out)
{
    out->running = x->threads * tile_bytes(o, x->cols);
    mixing_memory(o, x, false, out);
}

static void rtn_cost(const struct quant_options *o, int64_t rows, int64_t cols,
                     struct quant_cost *out)
{
    out->run = grid_flop(rows, cols, o);
    mixing_cost(o, rows, cols, false, out);
}

const struct quant_method quant_rtn = {
    .name = "rtn",
    .doc = "round to nearest: no calibration, scales from the range of each group",
    .bits_min = QUANT_BITS_MIN,
    .bits_max = QUANT_BITS_MAX,
    .results = QUANT_UNIFORM_GRID | QUANT_ROWS_ALONE | QUANT_ZERO_IS_ZERO,
    .describe_grids = grid_describe,
    .options = GRID_OPTIONS,
    .check = rtn_check,
    .only_bits = grid_only_bits,
    .run = rtn_run,
    .memory = rtn_memory,
    .cost = rtn_cost,
};

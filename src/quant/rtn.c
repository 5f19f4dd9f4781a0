/* Round to nearest: every weight independently, with one grid per group of columns. */
#include "quant/grids.h"
#include "quant/report.h"
#include "quant/rotation.h"
#include "util/mem.h"
#include "util/num.h"
#include <omp.h>
#include <stdlib.h>

/* Quantizes the rows of one tile, group by group; t (group, TILE_ROWS) is scratch. */
static void tile_quantize(const struct quant_job *job, int64_t row, int64_t group, float *t)
{
    struct grid g;
    for (int64_t a = 0; a < job->cols; a += group) {
        int64_t n = min64(group, job->cols - a);
        tile_load(t, TILE_ROWS, job->w, job->rows, job->cols, row, a, n, NULL);
        struct grid_kind kind = grid_kind_of(job->bits, job->options);
        kind.shared = grid_shared_at(job, row, a / group);
        grid_fit(&g, t, n, kind);
        grid_note(job, row, a / group, &g);
        for (int64_t j = 0; j < n; j++)
            grid_round_stored(t + j * TILE_ROWS, t + j * TILE_ROWS, &g, job->bits);
        tile_store(job->q, job->rows, job->cols, row, a, n, NULL, t);
    }
}

static enum status rtn_plain(const struct quant_job *all, struct quant_report *report,
                             struct err *e)
{
    enum status st = OK;
    struct quant_job own = *all, *job = &own;
    double *shared = NULL;
    float *scratch = NULL;
    int64_t group = grid_group(job->options, job->cols);
    int64_t first, end;
    team_own_rows(job->team, job->rows, &first, &end);
    st = job_check(job, e);
    if (st == OK)
        st = mem_alloc(&scratch, omp_get_max_threads() * group * TILE_ROWS, sizeof *scratch,
                       "tiles of weights", e);
    TRY(team_agree(job->team, st, e));
    TRY(grid_share(job, &shared, e));
#pragma omp parallel for schedule(dynamic)
    for (int64_t row = first; row < end; row += TILE_ROWS)
        tile_quantize(job, row, group, scratch + omp_get_thread_num() * group * TILE_ROWS);
    TRY(job_report(job, grid_bits(job), report, e));
done:
    free(scratch);
    free(shared);
    return st;
}

static enum status rtn_run(const struct quant_job *job, struct quant_report *report, struct err *e)
{
    return rotation_run(job, rtn_plain, report, e);
}

static enum status rtn_check(int64_t bits, const struct quant_options *o, struct err *e)
{
    (void)bits;
    return grid_check(o, e);
}

static void rtn_memory(const struct quant_options *o, const struct quant_extent *x,
                       struct quant_memory *out)
{
    out->running = x->threads * grid_group(o, x->cols) * TILE_ROWS * (int64_t)sizeof(float);
    rotation_memory(o, x, false, out);
}

static void rtn_cost(const struct quant_options *o, int64_t rows, int64_t cols,
                     struct quant_cost *out)
{
    out->run = grid_flop(rows, cols, o);
    rotation_cost(o, rows, cols, false, out);
}

const struct quant_method quant_rtn = {
    .name = "rtn",
    .doc = "round to nearest: no calibration, scales from the range of each group",
    .bits_min = QUANT_BITS_MIN,
    .bits_max = QUANT_BITS_MAX,
    .results = QUANT_UNIFORM_GRID | QUANT_ROWS_ALONE | QUANT_ZERO_IS_ZERO,
    .describe_grids = grid_describe,
    .options =
        "group_size symmetric range_search scale_dtype rotation rotation_seed codes scale_rows",
    .check = rtn_check,
    .only_bits = grid_only_bits,
    .run = rtn_run,
    .memory = rtn_memory,
    .cost = rtn_cost,
};

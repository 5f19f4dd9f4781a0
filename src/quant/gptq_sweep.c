/* The column sweep. Tiles of rows are independent; inside one, everything is turned (a column of W
 * is contiguous) so that each step is a loop over the tile's rows. */
#include "linalg/linalg.h"
#include "quant/gptq.h"
#include "quant/grid.h"
#include "tensor/kernel.h"
#include "util/mem.h"
#include <omp.h>
#include <stdlib.h>
#include <string.h>

/* Errors and weights of a column stand side by side, so that one product with a panel of the factor
 * serves the sweep and |W R|² alike. */
enum { PITCH = 2 * TILE_ROWS };

/* What one thread needs for one tile; widest = greatest reach of a block, longest = its length. */
struct scratch {
    float *both;         // (cols, PITCH) W - Q where it is known, and W
    float *carried;      // (widest, PITCH) both of all earlier columns times the factor's panel
    float *compensated;  // (widest, TILE_ROWS) weights that made up for the earlier blocks' errors
    float *working;      // (longest, TILE_ROWS) the same, changing inside the block
    float *rounded;      // (longest, TILE_ROWS)
    float *stored;       // (longest, TILE_ROWS) the same with stored scales; may be `rounded`
    struct grid *groups; // (groups) scales that are known before the sweep; NULL: found on the way
};

struct sweep_state {
    const struct quant_job *job;
    const struct quant_prepared *p;
    int64_t row; /* first row of the tile */
    struct scratch *s;
    struct grid grid; /* of the group in hand */
    double loss[TILE_ROWS], weight[TILE_ROWS], loss_plain[TILE_ROWS], weight_plain[TILE_ROWS];
};

/* One column, in the reference's own order of operations: round x, divide the error by the
 * inverse's diagonal u[0], and take it off the n - 1 columns behind. */
KERNEL_STATIC(void, column_step,
              (float *x, const float *u, int64_t n, const float *q, float *error, double *loss),
              (x, u, n, q, error, loss))
{
    float err[TILE_ROWS], d = u[0];
    for (int r = 0; r < TILE_ROWS; r++) {
        float miss = x[r] - q[r];
        err[r] = miss / d;
        loss[r] += (double)((miss * miss) / (d * d));
    }
    for (int64_t j = 1; j < n; j++) {
        float *to = x + j * TILE_ROWS, uj = u[j];
        for (int r = 0; r < TILE_ROWS; r++) to[r] -= err[r] * uj;
    }
    /* With respect to the original weight, which stands behind the error. */
    for (int r = 0; r < TILE_ROWS; r++) error[r] = error[r + TILE_ROWS] - q[r];
}

/* sum += the squares of n columns of x with the given pitch. */
KERNEL_STATIC(void, add_squares, (double *sum, const float *x, int64_t pitch, int64_t n),
              (sum, x, pitch, n))
{
    for (int64_t j = 0; j < n; j++)
        for (int r = 0; r < TILE_ROWS; r++) {
            double v = (double)x[j * pitch + r];
            sum[r] += v * v;
        }
}

/* compensated = W + (E_{<begin} R) U over [begin, reach); weight += |W R|² of the block's columns.
 */
static void block_compensate(struct sweep_state *t, const struct gptq_block *b)
{
    struct scratch *s = t->s;
    int64_t n = t->p->cols, length = b->end - b->begin, reach = b->reach - b->begin;
    const float *panel = t->p->factor + b->begin;
    const float *here = s->both + b->begin * PITCH + TILE_ROWS;
    gemm_tn(s->carried, PITCH, panel, n, s->both, PITCH, length, PITCH, b->begin, 0);
    gemm_tn(s->carried + length * PITCH, PITCH, panel + length, n, s->both, PITCH, reach - length,
            TILE_ROWS, b->begin, 0);
    for (int64_t j = 0; j < reach; j++)
        memcpy(s->compensated + j * TILE_ROWS, here + j * PITCH, TILE_ROWS * sizeof(float));
    if (b->begin > 0)
        gemm_tn(s->compensated, TILE_ROWS, b->inverse, reach, s->carried, PITCH, reach, TILE_ROWS,
                reach, 1);
    memcpy(s->working, s->compensated, (size_t)(length * TILE_ROWS) * sizeof(float));

    gemm_tn(s->carried + TILE_ROWS, PITCH, panel + b->begin * n, n, here, PITCH, length, TILE_ROWS,
            length, 1);
    add_squares(t->weight, s->carried + TILE_ROWS, PITCH, length);
}

/* The grid for column i of the sweep, if it changes there. */
static void grid_update(struct sweep_state *t, const struct gptq_block *b, int64_t i)
{
    int64_t group = t->p->options.group_size, n = t->p->cols;
    if (group < 0) {
        if (i == 0) t->grid = t->s->groups[0];
    } else if (t->p->options.static_groups) {
        t->grid = t->s->groups[(t->p->order ? t->p->order[i] : i) / group];
    } else if (i % group == 0) {
        int64_t length = n - i < group ? n - i : group;
        grid_fit(&t->grid, t->s->compensated + (i - b->begin) * TILE_ROWS, length,
                 grid_kind_of(t->job->bits, t->job->options));
    }
}

static void block_quantize(struct sweep_state *t, const struct gptq_block *b)
{
    struct scratch *s = t->s;
    int64_t length = b->end - b->begin, reach = b->reach - b->begin;
    block_compensate(t, b);
    for (int64_t i = 0; i < length; i++) {
        float *x = s->working + i * TILE_ROWS, *q = s->rounded + i * TILE_ROWS;
        grid_update(t, b, b->begin + i);
        grid_round(q, x, &t->grid, t->job->bits);
        if (s->stored != s->rounded)
            grid_round_stored(s->stored + i * TILE_ROWS, x, &t->grid, t->job->bits);
        column_step(x, b->inverse + i * reach + i, length - i, q, s->both + (b->begin + i) * PITCH,
                    t->loss);
    }
    tile_store(t->job->q, t->job->rows, t->job->cols, t->row, b->begin, length, t->p->order,
               s->stored);
}

/* Scales that come from the original weights. The reference zeroes dead columns after it has looked
 * at whole rows, but before it looks at static groups. */
static void groups_fit(struct sweep_state *t)
{
    const struct quant_prepared *p = t->p;
    int64_t n = p->cols, group = p->options.group_size;
    bool whole = group < 0;
    const struct tile_columns c = {.dead = whole ? NULL : p->dead};
    float *w = t->s->both; /* free before the sweep */
    if (whole || group > n) group = n;
    for (int64_t a = 0; a < n; a += group) {
        int64_t length = n - a < group ? n - a : group;
        tile_load(w, TILE_ROWS, t->job->w, t->job->rows, n, t->row, a, length, &c);
        grid_fit(&t->s->groups[a / group], w, length, grid_kind_of(t->job->bits, t->job->options));
    }
}

static double sum_rows(const double *x)
{
    double sum = 0;
    for (int r = 0; r < TILE_ROWS; r++) sum += x[r];
    return sum;
}

static struct gptq_sums tile_sweep(const struct quant_job *job, int64_t row, struct scratch *s)
{
    const struct quant_prepared *p = job->prepared;
    struct sweep_state t = {.job = job, .p = p, .row = row, .s = s};
    const struct tile_columns c = {.order = p->order, .dead = p->dead};
    if (s->groups) groups_fit(&t);
    tile_load(s->both + TILE_ROWS, PITCH, job->w, job->rows, p->cols, row, 0, p->cols, &c);
    for (int64_t i = 0; i < p->n_blocks; i++) block_quantize(&t, &p->blocks[i]);
    add_squares(t.loss_plain, s->both, PITCH, p->cols);
    add_squares(t.weight_plain, s->both + TILE_ROWS, PITCH, p->cols);
    return (struct gptq_sums){sum_rows(t.loss), sum_rows(t.weight), sum_rows(t.loss_plain),
                              sum_rows(t.weight_plain)};
}

static void scratch_free(struct scratch *s, int n)
{
    for (int i = 0; s && i < n; i++) {
        free(s[i].both);
        free(s[i].carried);
        free(s[i].compensated);
        free(s[i].working);
        if (s[i].stored != s[i].rounded) free(s[i].stored);
        free(s[i].rounded);
        free(s[i].groups);
    }
    free(s);
}

/* n structs that the caller frees with scratch_free, also after a failure. */
static enum status scratch_make(const struct quant_job *job, int n, struct scratch **out,
                                struct err *e)
{
    enum status st = OK;
    const struct quant_prepared *p = job->prepared;
    int64_t widest = 0, longest = p->blocks[0].end, group = p->options.group_size;
    int64_t groups = group < 0 ? 1 : (p->cols - 1) / group + 1;
    bool known = group < 0 || p->options.static_groups;
    for (int64_t i = 0; i < p->n_blocks; i++)
        if (p->blocks[i].reach - p->blocks[i].begin > widest)
            widest = p->blocks[i].reach - p->blocks[i].begin;
    TRY(mem_zero(out, n, sizeof **out, "scratch of threads", e));
    for (int i = 0; i < n; i++) {
        struct scratch *s = &(*out)[i];
        const char *what = "scratch of a tile";
        TRY(mem_zero(&s->both, p->cols * PITCH, sizeof(float), what, e));
        TRY(mem_zero(&s->carried, widest * PITCH, sizeof(float), what, e));
        TRY(mem_zero(&s->compensated, widest * TILE_ROWS, sizeof(float), what, e));
        TRY(mem_zero(&s->working, longest * TILE_ROWS, sizeof(float), what, e));
        TRY(mem_zero(&s->rounded, longest * TILE_ROWS, sizeof(float), what, e));
        s->stored = s->rounded;
        if (job->options->scale_dtype != SCALE_F32) {
            s->stored = NULL;
            TRY(mem_zero(&s->stored, longest * TILE_ROWS, sizeof(float), what, e));
        }
        if (known) TRY(mem_zero(&s->groups, groups, sizeof *s->groups, what, e));
    }
done:
    return st;
}

enum status gptq_sweep(const struct quant_job *job, struct gptq_sums *sums, struct err *e)
{
    enum status st = OK;
    struct scratch *scratch = NULL;
    struct gptq_sums *tiles = NULL;
    int threads = omp_get_max_threads();
    int64_t n = tile_count(job->rows);
    *sums = (struct gptq_sums){0};
    TRY(mem_zero(&tiles, n, sizeof *tiles, "sums of tiles", e));
    TRY(scratch_make(job, threads, &scratch, e));
#pragma omp parallel for schedule(dynamic)
    for (int64_t i = 0; i < n; i++)
        tiles[i] = tile_sweep(job, i * TILE_ROWS, &scratch[omp_get_thread_num()]);
    for (int64_t i = 0; i < n; i++) {
        sums->loss += tiles[i].loss;
        sums->weight += tiles[i].weight;
        sums->loss_plain += tiles[i].loss_plain;
        sums->weight_plain += tiles[i].weight_plain;
    }
done:
    scratch_free(scratch, threads);
    free(tiles);
    return st;
}

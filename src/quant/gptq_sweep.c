/* The column sweep. Tiles of rows are independent; a tile is transposed (a column of W is
 * contiguous), so that each step is a loop over its rows. */
#include "linalg/linalg.h"
#include "quant/gptq.h"
#include "quant/grid.h"
#include "tensor/kernel.h"
#include "util/mem.h"
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

/* Errors and weights of a column are side by side, so that one product with a panel of the factor
 * gives both the updates of the sweep and |W R|². */
enum { PITCH = 2 * TILE_ROWS };

/* Scratch of one thread for a block of one tile; widest: largest reach - begin of a block, longest:
 * largest end - begin. */
struct scratch {
    float *memory;  /* owner of the arrays below */
    float *carried; // (widest, PITCH) errors and weights of all earlier columns times the factor's
                    // panel
    float *
        compensated; // (widest, TILE_ROWS) weights after compensation of the earlier blocks' errors
    float *working;  // (longest, TILE_ROWS) the same, updated inside the block
    float *rounded;  // (longest, TILE_ROWS) quantized weights, from which errors are computed
    float *stored;   // (longest, TILE_ROWS) the result: the same, or with the stored scale
};

/* State of a tile during the sweep. */
struct tile {
    int64_t row;         /* first row */
    float *both;         // (cols, PITCH) W - Q of columns already quantized, and W
    float *carried;      // (cols, TILE_ROWS) what P multiplies in later blocks; NULL without P
    struct grid *groups; // (groups) grids computed before the sweep; NULL: computed during it
    struct grid grid;    /* of the current group */
    double loss[TILE_ROWS], weight[TILE_ROWS];
};

/* Columns [begin, reach) of the factor, rows from 0 on, and the inverse of its last rows. */
struct panel {
    const float *r; // (reach, .)
    int64_t pitch;
    const float *inverse; // (reach - begin, reach - begin)
};

struct sweep_state {
    const struct quant_job *job;
    const struct gptq_prepared *p;
    struct tile *t;
    struct scratch *s;
    struct panel panel;
};

/* Quantizes one column, with the reference's order of operations: rounds x, divides the error by
 * the inverse's diagonal u[0], and subtracts it from the n - 1 later columns. */
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
    /* The error relative to the original weight, which is stored after the error. */
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

/* GPTAQ: the correction of column i of the sweep, now x before it was rounded, is added to the n -
 * 1 later columns of the block, to the weights that they are rounded from and to those that errors
 * count from. */
static void column_correct(float *x, float *weight, const float *p, int64_t n)
{
    for (int64_t j = 1; j < n; j++)
        for (int r = 0; r < TILE_ROWS; r++) {
            float by = x[r] * p[j];
            x[j * TILE_ROWS + r] += by;
            weight[j * PITCH + r] += by;
        }
}

/* GPTAQ: adds the corrections of all earlier blocks' columns to the block's weights, and to the
 * copy of those that only its groups reach. */
static void block_correct(struct sweep_state *t, const struct gptq_block *b)
{
    struct scratch *s = t->s;
    int64_t reach = b->reach - b->begin, n = t->p->cols;
    float *weight = t->t->both + b->begin * PITCH + TILE_ROWS;
    if (b->begin == 0) return;
    gemm_tn(s->carried, TILE_ROWS, t->p->asymmetry + b->begin, n, t->t->carried, TILE_ROWS, reach,
            TILE_ROWS, b->begin, 0);
    for (int64_t j = 0; j < reach; j++)
        for (int r = 0; r < TILE_ROWS; r++) {
            float by = s->carried[j * TILE_ROWS + r];
            s->compensated[j * TILE_ROWS + r] += by;
            if (b->begin + j < b->end) weight[j * PITCH + r] += by;
        }
}

/* compensated = W + (E_{<begin} R) U over [begin, reach); weight += |W R|² of the block's columns.
 */
static void block_compensate(struct sweep_state *t, const struct gptq_block *b)
{
    struct scratch *s = t->s;
    int64_t length = b->end - b->begin, reach = b->reach - b->begin;
    const float *panel = t->panel.r, *both = t->t->both;
    const float *here = both + b->begin * PITCH + TILE_ROWS;
    int64_t n = t->panel.pitch;
    for (int64_t j = 0; j < reach; j++)
        memcpy(s->compensated + j * TILE_ROWS, here + j * PITCH, TILE_ROWS * sizeof(float));
    if (t->p->asymmetry) block_correct(t, b);
    gemm_tn(s->carried, PITCH, panel, n, both, PITCH, length, PITCH, b->begin, 0);
    gemm_tn(s->carried + length * PITCH, PITCH, panel + length, n, both, PITCH, reach - length,
            TILE_ROWS, b->begin, 0);
    if (b->begin > 0)
        gemm_tn(s->compensated, TILE_ROWS, t->panel.inverse, reach, s->carried, PITCH, reach,
                TILE_ROWS, reach, 1);
    memcpy(s->working, s->compensated, (size_t)(length * TILE_ROWS) * sizeof(float));

    gemm_tn(s->carried + TILE_ROWS, PITCH, panel + b->begin * n, n, here, PITCH, length, TILE_ROWS,
            length, 1);
    add_squares(t->t->weight, s->carried + TILE_ROWS, PITCH, length);
}

static struct grid_kind kind_of(const struct quant_job *job)
{
    const struct gptq_prepared *p = job->prepared;
    struct grid_kind kind = grid_kind_of(job->bits, job->options);
    kind.form = p->form;
    return kind;
}

/* The group whose grid column i of the sweep has. Groups keep their columns, but for those in
 * order of activation that are fitted during the sweep. */
static int64_t group_of(const struct gptq_prepared *p, int64_t i)
{
    const struct quant_options *o = &p->options;
    if (o->group_size < 0) return 0;
    const bool moves = o->order == ORDER_ACTIVATION && !o->static_groups;
    return (p->order && !moves ? p->order[i] : i) / o->group_size;
}

/* The grid for column i of the sweep, if it changes there. */
static void grid_update(struct sweep_state *t, const struct gptq_block *b, int64_t i)
{
    int64_t group = t->p->options.group_size, n = t->p->cols;
    if (group < 0) {
        if (i == 0) t->t->grid = t->t->groups[0];
    } else if (t->p->options.static_groups) {
        t->t->grid = t->t->groups[group_of(t->p, i)];
    } else if (i % group == 0) {
        int64_t length = n - i < group ? n - i : group;
        grid_fit(&t->t->grid, t->s->compensated + (i - b->begin) * TILE_ROWS, length,
                 kind_of(t->job));
        grid_note(t->job, t->t->row, group_of(t->p, i), &t->t->grid);
    }
}

/* GPTAQ: after column i of the sweep, x before it was rounded to q. */
static void column_end(struct sweep_state *t, int64_t i, int64_t n, float *x, const float *q)
{
    float *weight = t->t->both + i * PITCH + TILE_ROWS;
    column_correct(x, weight, t->p->asymmetry + i * t->p->cols + i, n);
    memcpy(t->t->carried + i * TILE_ROWS, t->p->consistent ? x : q, TILE_ROWS * sizeof *x);
}

static void block_quantize(struct sweep_state *t, const struct gptq_block *b)
{
    struct scratch *s = t->s;
    int64_t length = b->end - b->begin, reach = b->reach - b->begin;
    block_compensate(t, b);
    for (int64_t i = 0; i < length; i++) {
        float *x = s->working + i * TILE_ROWS, *q = s->rounded + i * TILE_ROWS;
        grid_update(t, b, b->begin + i);
        grid_round(q, x, &t->t->grid, t->job->bits);
        if (s->stored != s->rounded)
            grid_round_stored(s->stored + i * TILE_ROWS, x, &t->t->grid, t->job->bits);
        column_step(x, t->panel.inverse + i * reach + i, length - i, q,
                    t->t->both + (b->begin + i) * PITCH, t->t->loss);
        if (t->p->asymmetry) column_end(t, b->begin + i, length - i, x, q);
    }
    tile_store(t->job->q, t->job->rows, t->job->cols, t->t->row, b->begin, length, t->p->order,
               s->stored);
    if (t->job->unrounded)
        tile_store(t->job->unrounded, t->job->rows, t->job->cols, t->t->row, b->begin, length,
                   t->p->order, s->rounded);
}

/* Computes grids from the original weights. The reference zeroes dead columns after computing the
 * grids of whole rows, but before those of static groups. */
static void groups_fit(const struct quant_job *job, struct tile *t)
{
    const struct gptq_prepared *p = job->prepared;
    int64_t n = p->cols, group = p->options.group_size;
    bool whole = group < 0;
    const struct tile_columns c = {.dead = whole ? NULL : p->dead};
    float *w = t->both; /* unused before the sweep */
    if (whole || group > n) group = n;
    for (int64_t a = 0; a < n; a += group) {
        int64_t length = n - a < group ? n - a : group;
        tile_load(w, TILE_ROWS, job->w, job->rows, n, t->row, a, length, &c);
        grid_fit(&t->groups[a / group], w, length, kind_of(job));
        grid_note(job, t->row, a / group, &t->groups[a / group]);
    }
}

static void tile_begin(const struct quant_job *job, struct tile *t, int64_t row)
{
    const struct gptq_prepared *p = job->prepared;
    const struct tile_columns c = {.order = p->order, .dead = p->dead};
    t->row = row;
    memset(t->loss, 0, sizeof t->loss);
    memset(t->weight, 0, sizeof t->weight);
    if (t->groups) groups_fit(job, t);
    tile_load(t->both + TILE_ROWS, PITCH, job->w, job->rows, p->cols, row, 0, p->cols, &c);
}

static double sum_rows(const double *x)
{
    double sum = 0;
    for (int r = 0; r < TILE_ROWS; r++) sum += x[r];
    return sum;
}

static struct gptq_sums tile_end(const struct quant_job *job, const struct tile *t)
{
    double loss[TILE_ROWS] = {0}, weight[TILE_ROWS] = {0};
    add_squares(loss, t->both, PITCH, job->cols);
    add_squares(weight, t->both + TILE_ROWS, PITCH, job->cols);
    return (struct gptq_sums){sum_rows(t->loss), sum_rows(t->weight), sum_rows(loss),
                              sum_rows(weight)};
}

static void tiles_free(struct tile *t, int64_t n)
{
    for (int64_t i = 0; t && i < n; i++) {
        free(t[i].both);
        free(t[i].carried);
        free(t[i].groups);
    }
    free(t);
}

/* n tiles that the caller frees with tiles_free, also after a failure. */
static enum status tiles_make(const struct gptq_prepared *p, int64_t n, struct tile **out,
                              struct err *e)
{
    int64_t group = p->options.group_size, groups = group < 0 ? 1 : (p->cols - 1) / group + 1;
    bool known = group < 0 || p->options.static_groups;
    PASS(mem_zero(out, n, sizeof **out, "tiles of weights", e));
    for (int64_t i = 0; i < n; i++) {
        struct tile *t = &(*out)[i];
        PASS(mem_alloc(&t->both, p->cols * PITCH, sizeof(float), "a tile of weights", e));
        if (p->asymmetry)
            PASS(mem_alloc(&t->carried, p->cols * TILE_ROWS, sizeof(float), "a tile's values", e));
        if (known) PASS(mem_zero(&t->groups, groups, sizeof *t->groups, "a tile's scales", e));
    }
    return OK;
}

static void scratch_free(struct scratch *s, int n)
{
    for (int i = 0; s && i < n; i++) free(s[i].memory);
    free(s);
}

/* n structs that the caller frees with scratch_free, also after a failure. */
static enum status scratch_make(const struct quant_job *job, int n, struct scratch **out,
                                struct err *e)
{
    const struct gptq_prepared *p = job->prepared;
    int64_t widest = p->widest, block = p->blocks[0].end * TILE_ROWS;
    bool apart = job->options->scale_dtype != SCALE_F32;
    int64_t floats = widest * (PITCH + TILE_ROWS) + (apart ? 3 : 2) * block;
    PASS(mem_zero(out, n, sizeof **out, "scratch of threads", e));
    for (int i = 0; i < n; i++) {
        struct scratch *s = &(*out)[i];
        PASS(mem_zero(&s->memory, floats, sizeof(float), "scratch of a tile", e));
        s->carried = s->memory;
        s->compensated = s->carried + widest * PITCH;
        s->working = s->compensated + widest * TILE_ROWS;
        s->rounded = s->working + block;
        s->stored = apart ? s->rounded + block : s->rounded;
    }
    return OK;
}

/* Work of a rank: its tiles, and the sums of all tiles, of which it fills in its own. */
struct work {
    const struct quant_job *job;
    const struct gptq_prepared *p;
    int64_t first, end, n; /* this rank's tiles; number of all tiles */
    int threads;
    struct scratch *scratch; // (threads)
    int64_t n_tiles;
    struct tile *tiles; // (n_tiles) one per thread, or all
    struct gptq_sums *sums;
};

/* With the whole factor on this rank: each tile is swept over all columns before the next tile. */
static void sweep_tiles(struct work *w)
{
#pragma omp parallel for schedule(dynamic)
    for (int64_t i = w->first; i < w->end; i++) {
        int thread = omp_get_thread_num();
        struct tile *t = &w->tiles[thread];
        struct sweep_state s = {w->job, w->p, t, &w->scratch[thread], {0}};
        tile_begin(w->job, t, i * TILE_ROWS);
        for (int64_t k = 0; k < w->p->n_blocks; k++) {
            const struct gptq_block *b = &w->p->blocks[k];
            s.panel = (struct panel){w->p->factor + b->begin, w->p->cols, b->inverse};
            block_quantize(&s, b);
        }
        w->sums[i] = tile_end(w->job, t);
    }
}

/* A received panel of a distributed factor. */
struct arrival {
    float *r; // (reach, reach - begin)
    double *corner,
        *upside; // (reach - begin, reach - begin) the panel's last rows and their inverse
    float *inverse;
};

static void arrival_free(struct arrival *a)
{
    free(a->r);
    free(a->corner);
    free(a->upside);
    free(a->inverse);
}

static enum status arrival_make(const struct gptq_prepared *p, struct arrival *a, struct err *e)
{
    int64_t m = p->widest * p->widest;
    PASS(mem_alloc(&a->r, p->cols * p->widest, sizeof *a->r, "a panel of the factor", e));
    PASS(mem_alloc(&a->corner, m, sizeof *a->corner, "a block of the factor", e));
    PASS(mem_alloc(&a->upside, m, sizeof *a->upside, "the inverse of a block", e));
    return mem_alloc(&a->inverse, m, sizeof *a->inverse, "the inverse of a block", e);
}

/* Waits for block b's panel. */
static enum status arrival_take(const struct gptq_prepared *p, const struct gptq_block *b,
                                struct dist_panel *panel, struct arrival *a, struct err *e)
{
    int64_t m = b->reach - b->begin;
    PASS(dist_panel_finish(p->dist, panel, a->r, a->corner, e));
    if (isnan(p->damping)) { /* no damping sufficed: R = I */
        memset(a->r, 0, (size_t)(b->reach * m) * sizeof *a->r);
        memset(a->corner, 0, (size_t)(m * m) * sizeof *a->corner);
        for (int64_t i = 0; i < m; i++) {
            a->r[(b->begin + i) * m + i] = 1;
            a->corner[i * m + i] = 1;
        }
    }
    PASS(triangular_inverse(a->upside, a->corner, m, 0, m, e));
    for (int64_t i = 0; i < m * m; i++) a->inverse[i] = (float)a->upside[i];
    return OK;
}

/* Starts the transfer of panel k, if it exists. */
static enum status panel_start(const struct gptq_prepared *p, int64_t k, struct dist_panel *panel,
                               struct err *e)
{
    if (k >= p->n_blocks) return OK;
    return dist_panel_start(p->dist, p->blocks[k].begin, p->blocks[k].reach, panel, e);
}

/* With a distributed factor: all tiles are swept over one block of columns before the next; the
 * next panel is transferred meanwhile. */
static enum status sweep_panels(struct work *w, struct err *e)
{
    enum status st = OK;
    const struct gptq_prepared *p = w->p;
    struct dist_panel panel[2] = {{0}, {0}};
    struct arrival a = {0};
    TRY(team_agree(w->job->team, arrival_make(p, &a, e), e));
#pragma omp parallel for schedule(dynamic)
    for (int64_t i = w->first; i < w->end; i++)
        tile_begin(w->job, &w->tiles[i - w->first], i * TILE_ROWS);
    TRY(panel_start(p, 0, &panel[0], e));
    for (int64_t k = 0; k < p->n_blocks; k++) {
        const struct gptq_block *b = &p->blocks[k];
        TRY(panel_start(p, k + 1, &panel[(k + 1) & 1], e));
        TRY(team_agree(w->job->team, arrival_take(p, b, &panel[k & 1], &a, e), e));
        dist_panel_free(&panel[k & 1]);
#pragma omp parallel for schedule(dynamic)
        for (int64_t i = w->first; i < w->end; i++) {
            struct sweep_state s = {w->job,
                                    p,
                                    &w->tiles[i - w->first],
                                    &w->scratch[omp_get_thread_num()],
                                    {a.r, b->reach - b->begin, a.inverse}};
            block_quantize(&s, b);
        }
    }
    for (int64_t i = w->first; i < w->end; i++)
        w->sums[i] = tile_end(w->job, &w->tiles[i - w->first]);
done:
    dist_panel_free(&panel[0]);
    dist_panel_free(&panel[1]);
    arrival_free(&a);
    return st;
}

static enum status sweep_room(struct work *w, struct err *e)
{
    PASS(mem_zero(&w->sums, w->n, sizeof *w->sums, "sums of tiles", e));
    PASS(scratch_make(w->job, w->threads, &w->scratch, e));
    return tiles_make(w->p, w->n_tiles, &w->tiles, e);
}

int64_t gptq_sweep_bytes(const struct quant_options *o, const struct quant_extent *x)
{
    int64_t cols = x->cols, block = o->block_size < cols ? o->block_size : cols;
    int64_t widest = o->group_size > block ? block + o->group_size : block;
    int64_t own = (tile_count(x->rows) + x->ranks - 1) / x->ranks;
    int64_t tiles = x->distributed ? own : x->threads;
    int64_t scratch = (widest < cols ? widest : cols) * (PITCH + TILE_ROWS) + 3 * block * TILE_ROWS;
    return (tiles * cols * PITCH + x->threads * scratch) * (int64_t)sizeof(float);
}

enum status gptq_sweep(const struct quant_job *job, struct gptq_sums *sums, struct err *e)
{
    enum status st = OK;
    enum { SUMS = sizeof *sums / sizeof(double) };
    struct work w = {.job = job,
                     .p = job->prepared,
                     .n = tile_count(job->rows),
                     .threads = omp_get_max_threads()};
    int64_t row, end;
    team_own_rows(job->team, job->rows, &row, &end);
    w.first = row / TILE_ROWS;
    w.end = tile_count(end);
    w.n_tiles = w.p->dist ? w.end - w.first : w.threads;
    *sums = (struct gptq_sums){0};
    for (int64_t i = 0; job->grids && i < job->cols; i++)
        job->grids->group[w.p->order ? w.p->order[i] : i] = (int32_t)group_of(w.p, i);
    TRY(team_agree(job->team, sweep_room(&w, e), e));
    if (w.p->dist)
        TRY(sweep_panels(&w, e));
    else
        sweep_tiles(&w);
    TRY(team_gather(job->team, (double *)w.sums, SUMS, TILE_ROWS, job->rows, e));
    for (int64_t i = 0; i < w.n; i++) {
        sums->loss += w.sums[i].loss;
        sums->weight += w.sums[i].weight;
        sums->loss_plain += w.sums[i].loss_plain;
        sums->weight_plain += w.sums[i].weight_plain;
    }
done:
    scratch_free(w.scratch, w.threads);
    tiles_free(w.tiles, w.n_tiles);
    free(w.sums);
    return st;
}

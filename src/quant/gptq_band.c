/* The columns of a band. A tile is transposed (a column of W is contiguous), so that each step of
 * the sweep is a loop over its rows. */
#include "quant/gptq_band.h"
#include "math/kernel.h"
#include "math/linalg.h"
#include "math/strip.h"
#include "util/mem.h"
#include "util/num.h"

/* A tile in a block of columns. */
struct sweep_state {
    const struct quant_job *job;
    const struct gptq_prepared *p;
    const float *r; // (end - begin, end - begin) R's own part of the block, by columns
    struct gptq_tile *t;
    struct gptq_scratch *s;
    const float *inverse; // (reach - begin, reach - begin) of the block of the factor
    float *carried;       // (reach - begin, pitch) the tile's part of the band's
    int64_t pitch;        /* of carried */
};

/* Quantizes one column, with the reference's order of operations: rounds x, divides the error by
 * the inverse's diagonal u[0], and subtracts it from the n - 1 later columns. */
KERNEL_STATIC(void, column_step,
              (float *x, const float *u, int64_t n, const float *q, const float *weight,
               float *error, double *loss),
              (x, u, n, q, weight, error, loss))
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
    /* The error relative to the original weight. */
    for (int r = 0; r < TILE_ROWS; r++) error[r] = weight[r] - q[r];
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
static void column_correct(float *x, float *weight, int64_t pitch, const float *p, int64_t n)
{
    for (int64_t j = 1; j < n; j++)
        for (int r = 0; r < TILE_ROWS; r++) {
            float by = x[r] * p[j];
            x[j * TILE_ROWS + r] += by;
            weight[j * pitch + r] += by;
        }
}

/* GPTAQ: adds the corrections of all earlier blocks' columns to the block's weights, and to the
 * copy of those that only its groups reach. */
static void block_correct(struct sweep_state *t, const struct gptq_block *b)
{
    struct gptq_scratch *s = t->s;
    int64_t reach = b->reach - b->begin, n = t->p->cols;
    float *weight = t->t->weights + b->begin * t->t->pitch;
    if (b->begin == 0) return;
    mat_gemm(MAT_TN, s->correction, TILE_ROWS, t->p->asymmetry + b->begin, n, t->t->carried,
             TILE_ROWS, reach, TILE_ROWS, b->begin, 0);
    for (int64_t j = 0; j < reach; j++)
        for (int r = 0; r < TILE_ROWS; r++) {
            float by = s->correction[j * TILE_ROWS + r];
            s->compensated[j * TILE_ROWS + r] += by;
            if (b->begin + j < b->end) weight[j * t->t->pitch + r] += by;
        }
}

/* compensated += (E_{<begin} R) U over the block's reach. */
static void block_add_errors(const struct sweep_state *t, int64_t reach)
{
    if (!t->p->strips) {
        mat_gemm(MAT_TN, t->s->compensated, TILE_ROWS, t->inverse, reach, t->carried, t->pitch,
                 reach, TILE_ROWS, reach, 1);
        return;
    }
    const struct strip strip = {t->s->compensated, t->carried, reach};
    strip_products(&strip, 1,
                   &(struct strip_factor){.cols = STRIP_COLS,
                                          .a = t->inverse,
                                          .a_row = 1,
                                          .a_col = reach,
                                          .k = reach,
                                          .ldy = TILE_ROWS,
                                          .ldb = t->pitch,
                                          .lower = true,
                                          .add = true},
                   STRIP_DEPTH);
}

/* What is carried of W += the block's own W R. */
static void block_add_weights(const struct sweep_state *t, const float *w, int64_t length)
{
    float *carried = t->carried + TILE_ROWS;
    if (!t->p->strips) {
        mat_gemm(MAT_NN, carried, t->pitch, t->r, length, w, t->t->pitch, length, TILE_ROWS, length,
                 1);
        return;
    }
    const struct strip strip = {carried, w, length};
    strip_products(&strip, 1,
                   &(struct strip_factor){.cols = STRIP_COLS,
                                          .a = t->r,
                                          .a_row = length,
                                          .a_col = 1,
                                          .k = length,
                                          .ldy = t->pitch,
                                          .ldb = t->t->pitch,
                                          .lower = true,
                                          .add = true},
                   STRIP_DEPTH);
}

/* compensated = W + (E_{<begin} R) U over [begin, reach); weight += |W R|² of the block's columns.
 */
static void block_compensate(struct sweep_state *t, const struct gptq_block *b)
{
    struct gptq_scratch *s = t->s;
    int64_t length = b->end - b->begin, reach = b->reach - b->begin;
    const float *here = t->t->weights + b->begin * t->t->pitch;
    for (int64_t j = 0; j < reach; j++)
        memcpy(s->compensated + j * TILE_ROWS, here + j * t->t->pitch, TILE_ROWS * sizeof(float));
    if (t->p->asymmetry) block_correct(t, b);
    if (b->begin > 0) block_add_errors(t, reach);
    memcpy(s->working, s->compensated, (size_t)(length * TILE_ROWS) * sizeof(float));
    block_add_weights(t, here, length);
    add_squares(t->t->weight, t->carried + TILE_ROWS, t->pitch, length);
}

static struct grid_kind kind_of(const struct quant_job *job, int64_t row, int64_t group)
{
    const struct gptq_prepared *p = job->prepared;
    struct grid_kind kind = grid_kind_of(job->bits, job->options);
    if (p->form != GRID_GPTQ) kind.form = p->form;
    kind.shared = grid_shared_at(job, row, group);
    return kind;
}

int64_t gptq_group_of(const struct gptq_prepared *p, int64_t i)
{
    const struct quant_options *o = &p->options;
    if (o->group_size < 0) return 0;
    const bool moves =
        o->outlier_columns > 0 || (o->order == ORDER_ACTIVATION && !o->static_groups);
    return (p->order && !moves ? p->order[i] : i) / o->group_size;
}

/* The grid for column i of the sweep, if it changes there. */
static void grid_update(struct sweep_state *t, const struct gptq_block *b, int64_t i)
{
    int64_t group = t->p->options.group_size, n = grid_columns(&t->p->options, t->p->cols);
    if (group < 0) {
        if (i == 0) t->t->grid = t->t->groups[0];
    } else if (t->p->options.static_groups) {
        t->t->grid = t->t->groups[gptq_group_of(t->p, i)];
    } else if (i % group == 0) {
        int64_t length = n - i < group ? n - i : group;
        grid_fit(&t->t->grid, t->s->compensated + (i - b->begin) * TILE_ROWS, length,
                 kind_of(t->job, t->t->row, gptq_group_of(t->p, i)));
        grid_note(t->job, t->t->row, gptq_group_of(t->p, i), &t->t->grid);
    }
}

/* GPTAQ: after column i of the sweep, x before it was rounded to q. */
static void column_end(struct sweep_state *t, int64_t i, int64_t n, float *x, const float *q)
{
    float *weight = t->t->weights + i * t->t->pitch;
    column_correct(x, weight, t->t->pitch, t->p->asymmetry + i * t->p->cols + i, n);
    memcpy(t->t->carried + i * TILE_ROWS, t->p->consistent ? x : q, TILE_ROWS * sizeof *x);
}

static void block_quantize(struct sweep_state *t, const struct gptq_block *b)
{
    struct gptq_scratch *s = t->s;
    int64_t length = b->end - b->begin, reach = b->reach - b->begin;
    const int64_t own = grid_columns(&t->p->options, t->p->cols) - b->begin;
    block_compensate(t, b);
    for (int64_t i = 0; i < length; i++) {
        float *x = s->working + i * TILE_ROWS, *q = s->rounded + i * TILE_ROWS;
        float *stored = s->stored + i * TILE_ROWS;
        if (i < own) {
            grid_update(t, b, b->begin + i);
            grid_round(q, x, &t->t->grid, t->job->bits);
            if (stored != q) grid_round_stored(stored, x, &t->t->grid, t->job->bits);
        } else { /* takes up errors of the columns before */
            memcpy(q, x, TILE_ROWS * sizeof *q);
            if (stored != q) memcpy(stored, x, TILE_ROWS * sizeof *q);
        }
        const int64_t at = (b->begin + i) * t->t->pitch;
        column_step(x, t->inverse + i * reach + i, length - i, q, t->t->weights + at,
                    t->t->errors + at, t->t->loss);
        if (t->p->asymmetry) column_end(t, b->begin + i, length - i, x, q);
    }
    tile_store(t->job->q, t->job->rows, t->job->cols, t->t->row, b->begin, length, t->p->order,
               s->stored);
    if (t->job->unrounded)
        tile_store(t->job->unrounded, t->job->rows, t->job->cols, t->t->row, b->begin, length,
                   t->p->order, s->rounded);
}

/* Computes grids from the original weights. The reference zeroes dead columns after computing the
 * grids of whole rows, but before those of static groups. w (group, TILE_ROWS): scratch. */
static void groups_fit(const struct quant_job *job, struct gptq_tile *t, float *w)
{
    const struct gptq_prepared *p = job->prepared;
    int64_t n = grid_columns(&p->options, p->cols), group = p->options.group_size;
    bool whole = group < 0;
    const struct tile_columns c = {.order = n < p->cols ? p->order : NULL,
                                   .dead = whole ? NULL : p->dead};
    if (whole || group > n) group = n;
    for (int64_t a = 0; a < n; a += group) {
        int64_t length = n - a < group ? n - a : group;
        tile_load(w, TILE_ROWS, job->w, job->rows, p->cols, t->row, a, length, &c);
        grid_fit(&t->groups[a / group], w, length, kind_of(job, t->row, a / group));
        grid_note(job, t->row, a / group, &t->groups[a / group]);
    }
}

void gptq_band_begin(struct gptq_band *b, int64_t i, int64_t first, int64_t end)
{
    const struct quant_job *job = b->job;
    const struct gptq_prepared *p = b->p;
    const struct tile_columns c = {.order = p->order, .dead = p->dead};
    int64_t tiles = b->pitch / GPTQ_PITCH, from = i * tiles;
    b->first = max64(first - from, 0);
    b->end = min64(end - from, tiles);
    for (int64_t k = b->first; k < b->end; k++) {
        struct gptq_tile *t = &b->tile[k];
        t->row = (from + k) * TILE_ROWS;
        memset(t->loss, 0, sizeof t->loss);
        memset(t->weight, 0, sizeof t->weight);
        if (t->groups) groups_fit(job, t, b->both); /* unused before the sweep */
    }
    if (!b->p->strips && b->end - b->first < tiles)
        memset(b->both, 0, (size_t)(p->cols * b->pitch) * sizeof *b->both);
    for (int64_t k = b->first; k < b->end; k++)
        tile_load(b->tile[k].weights, b->tile[k].pitch, job->w, job->rows, p->cols, b->tile[k].row,
                  0, p->cols, &c);
}

/* Numbers of the factor (reach, n), rows without gaps, that columns [from, from + n) of the sweep
 * are multiplied with, W only in the first `length` rows. */
struct span {
    const float *r;
    int64_t from, n, length, reach;
};

/* y (reach, pitch) = beta y + R (E, W)_{from..from + n} of each tile by itself. */
static void strips_carry(const struct gptq_band *b, const struct span *s, float *y, float beta)
{
    struct strip strips[2 * GPTQ_BAND_MOST];
    int n = 0;
    for (int64_t k = b->first; k < b->end; k++) {
        const struct gptq_tile *t = &b->tile[k];
        float *to = y + k * GPTQ_PITCH;
        strips[n++] = (struct strip){to, t->errors + s->from * t->pitch, s->reach};
        strips[n++] = (struct strip){to + TILE_ROWS, t->weights + s->from * t->pitch, s->length};
    }
    strip_products(strips, n,
                   &(struct strip_factor){.cols = STRIP_COLS,
                                          .a = s->r,
                                          .a_row = s->n,
                                          .a_col = 1,
                                          .k = s->n,
                                          .ldy = b->pitch,
                                          .ldb = TILE_ROWS,
                                          .add = beta != 0},
                   STRIP_DEPTH);
}

/* y (reach, pitch) = beta y + R (E, W)_{from..from + n}. */
static void band_carry(const struct gptq_band *b, const struct span *s, float *y, float beta)
{
    if (b->p->strips) {
        strips_carry(b, s, y, beta);
        return;
    }
    const float *both = b->both + s->from * b->pitch;
    int64_t lda = max64(s->n, 1);
    mat_gemm(MAT_NN, y, b->pitch, s->r, lda, both, b->pitch, s->length, b->pitch, s->n, beta);
    for (int64_t k = b->first; k < b->end; k++)
        mat_gemm(MAT_NN, y + s->length * b->pitch + k * GPTQ_PITCH, b->pitch,
                 s->r + s->length * s->n, lda, both + k * GPTQ_PITCH, b->pitch,
                 s->reach - s->length, TILE_ROWS, s->n, beta);
}

/* carried = (E, W)_{<begin} R of a block, from what the columns before the panel contribute. */
static void block_carry(const struct gptq_band *b, const struct gptq_scratch *s,
                        const struct gptq_panel *panel, const struct gptq_block *k,
                        const float *own)
{
    const struct span span = {own, panel->begin, k->begin - panel->begin, k->end - k->begin,
                              k->reach - k->begin};
    memcpy(s->carried, s->ahead + span.n * b->pitch,
           (size_t)(span.reach * b->pitch) * sizeof(float));
    if (span.n > 0) band_carry(b, &span, s->carried, 1);
}

void gptq_band_quantize(struct gptq_band *b, struct gptq_scratch *s, const struct gptq_panel *panel,
                        const float *inverse)
{
    const struct gptq_prepared *p = b->p;
    const struct span before = {panel->before, 0, panel->begin, panel->end - panel->begin,
                                panel->reach - panel->begin};
    const float *own = panel->own;
    band_carry(b, &before, s->ahead, 0);
    for (int64_t i = panel->first; i < panel->last; i++) {
        const struct gptq_block *block = &p->blocks[i];
        int64_t at = (i - panel->first) * p->widest * p->widest;
        block_carry(b, s, panel, block, own);
        for (int64_t k = b->first; k < b->end; k++) {
            struct sweep_state state = {.job = b->job,
                                        .p = p,
                                        .t = &b->tile[k],
                                        .s = s,
                                        .inverse = inverse ? inverse + at : block->inverse,
                                        .pitch = b->pitch};
            state.r = own + (block->reach - block->begin) * (block->begin - panel->begin);
            state.carried = s->carried + k * GPTQ_PITCH;
            block_quantize(&state, block);
        }
        own += gptq_block_own(panel, block);
    }
}

static double sum_rows(const double *x)
{
    double sum = 0;
    for (int r = 0; r < TILE_ROWS; r++) sum += x[r];
    return sum;
}

void gptq_band_end(const struct gptq_band *b, struct gptq_sums *sums)
{
    int64_t n = b->p->cols;
    for (int64_t k = b->first; k < b->end; k++) {
        const struct gptq_tile *t = &b->tile[k];
        double loss[TILE_ROWS] = {0}, weight[TILE_ROWS] = {0};
        add_squares(loss, t->errors, t->pitch, n);
        add_squares(weight, t->weights, t->pitch, n);
        sums[t->row / TILE_ROWS] = (struct gptq_sums){sum_rows(t->loss), sum_rows(t->weight),
                                                      sum_rows(loss), sum_rows(weight)};
    }
}

/* Where tile k has its part of `both`. */
static void tile_place(const struct gptq_band *b, int64_t k, struct gptq_tile *t)
{
    const int64_t strip = b->p->cols * TILE_ROWS;
    t->errors = b->both + k * (b->p->strips ? 2 * strip : GPTQ_PITCH);
    t->weights = t->errors + (b->p->strips ? strip : TILE_ROWS);
    t->pitch = b->p->strips ? TILE_ROWS : b->pitch;
}

enum status gptq_band_make(const struct quant_job *job, struct gptq_band *b, struct err *e)
{
    const struct gptq_prepared *p = job->prepared;
    int64_t group = p->options.group_size, groups = group < 0 ? 1 : (p->cols - 1) / group + 1;
    int64_t tiles = p->band_tiles;
    bool known = group < 0 || p->options.static_groups;
    *b = (struct gptq_band){.job = job, .p = p, .pitch = tiles * GPTQ_PITCH};
    PASS(mem_alloc(&b->both, p->cols * b->pitch, sizeof(float), "tiles of weights", e));
    for (int64_t k = 0; k < tiles; k++) {
        struct gptq_tile *t = &b->tile[k];
        tile_place(b, k, t);
        if (p->asymmetry)
            PASS(mem_alloc(&t->carried, p->cols * TILE_ROWS, sizeof(float), "a tile's values", e));
        if (known) PASS(mem_zero(&t->groups, groups, sizeof *t->groups, "a tile's scales", e));
    }
    return OK;
}

void gptq_band_free(struct gptq_band *b)
{
    for (int k = 0; k < GPTQ_BAND_MOST; k++) {
        free(b->tile[k].carried);
        free(b->tile[k].groups);
    }
    free(b->both);
}

enum status gptq_scratch_make(const struct quant_job *job, struct gptq_scratch *s, struct err *e)
{
    const struct gptq_prepared *p = job->prepared;
    int64_t block = p->blocks[0].end * TILE_ROWS, tile = p->widest * TILE_ROWS;
    int64_t pitch = p->band_tiles * GPTQ_PITCH;
    float **const arrays[] = {&s->ahead,   &s->carried, &s->compensated, &s->working,
                              &s->rounded, &s->stored,  &s->correction};
    const int64_t sizes[] = {p->widest_panel * pitch,
                             p->widest * pitch,
                             tile,
                             block,
                             block,
                             job->options->scale_dtype != SCALE_F32 ? block : 0,
                             p->asymmetry ? tile : 0};
    enum { ARRAYS = sizeof sizes / sizeof *sizes };
    int64_t floats = 0;
    for (int i = 0; i < ARRAYS; i++) floats += sizes[i];
    PASS(mem_zero(&s->memory, floats, sizeof(float), "scratch of a tile", e));
    float *next = s->memory;
    for (int i = 0; i < ARRAYS; next += sizes[i++]) *arrays[i] = next;
    if (job->options->scale_dtype == SCALE_F32) s->stored = s->rounded;
    return OK;
}

void gptq_scratch_free(struct gptq_scratch *s)
{
    free(s->memory);
}

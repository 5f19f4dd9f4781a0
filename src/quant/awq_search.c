/* The scales of AWQ: s = m^r for the mean magnitude m of each input channel, with the exponent r
 * whose quantized weights change the output least. The output is that of the attention or of the
 * MLP (a forward pass for each exponent), or of the linears alone, where the Gram matrix G of the
 * inputs says it: |X Eᵀ|² = tr(E G Eᵀ), E the change of the weights. */
#include "math/linalg.h"
#include "quant/awq.h"
#include "util/mem.h"
#include "util/num.h"
#include <math.h>
#include <omp.h>

struct search {
    const struct quant_block *b;
    const struct quant_input *in;
    const struct mixing *mixing;
    int stage;
    int first, n;      /* linears that get the same scales */
    double *magnitude; // (cols) mean |x|
    double *weight;    // (cols) mean of |w| / max |w| of its group; NULL: not wanted
    float *scale;      // (cols) under trial
    float *gram;       // (cols, cols) NULL: the module's output is compared
    float *scratch;    // (threads, 2, cols, TILE_ROWS)
    double *sums;      // (tiles of the linear with the most rows, cols or 1)
};

static const struct quant_linear *linear_at(const struct search *s, int i)
{
    return &s->b->linear[s->first + i];
}

static int64_t rows_of(const struct search *s, bool largest)
{
    int64_t rows = 0;
    for (int i = 0; i < s->n; i++) {
        int64_t one = linear_at(s, i)->rows;
        rows = largest ? max64(rows, one) : rows + one;
    }
    return rows;
}

/* t (cols, TILE_ROWS) = rows of W, mixed. */
static void tile_get(const struct search *s, const struct quant_linear *l, int64_t row, float *t)
{
    tile_load(t, TILE_ROWS, l->w, l->rows, l->cols, row, 0, l->cols, NULL);
    mixing_tile(s->mixing, t, false);
}

/* t (cols, TILE_ROWS) = Q(W diag(scale)) diag(scale)⁻¹ for a tile of rows. */
static void tile_try(const struct search *s, const struct quant_linear *l, int64_t row, float *t)
{
    struct grid_kind kind = awq_grid(s->b->bits, s->b->options);
    int64_t group = grid_group(s->b->options, l->cols);
    struct grid g;
    tile_get(s, l, row, t);
    for (int64_t j = 0; j < l->cols; j++)
        for (int r = 0; r < TILE_ROWS; r++) t[j * TILE_ROWS + r] *= s->scale[j];
    for (int64_t j = 0; j < l->cols; j++) {
        float *x = t + j * TILE_ROWS;
        if (j % group == 0) grid_fit(&g, x, min64(group, l->cols - j), kind);
        grid_round(x, x, &g, kind.bits);
        for (int r = 0; r < TILE_ROWS; r++) x[r] /= s->scale[j];
    }
}

static float *scratch_of(const struct search *s)
{
    return s->scratch + omp_get_thread_num() * 2 * s->in->cols * TILE_ROWS;
}

/* --- losses --- */

/* A step for each tile of this rank's rows of a linear. */
typedef void tile_step(const struct search *s, const struct quant_linear *l, int64_t row);
static void each_tile(const struct search *s, const struct quant_linear *l, tile_step *step)
{
    int64_t first, end;
    team_own_rows(s->b->team, l->rows, &first, &end);
#pragma omp parallel for schedule(dynamic)
    for (int64_t row = first; row < end; row += TILE_ROWS) step(s, l, row);
}

static void tile_loss(const struct search *s, const struct quant_linear *l, int64_t row)
{
    int64_t n = l->cols * TILE_ROWS;
    float *error = scratch_of(s), *product = error + n;
    double sum = 0;
    tile_try(s, l, row, error);
    tile_get(s, l, row, product);
    for (int64_t k = 0; k < n; k++) error[k] -= product[k];
    mat_gemm(MAT_NN, product, TILE_ROWS, s->gram, l->cols, error, TILE_ROWS, l->cols, TILE_ROWS,
             l->cols, 0);
    for (int64_t k = 0; k < n; k++) sum += (double)error[k] * (double)product[k];
    s->sums[row / TILE_ROWS] = sum;
}

/* The mean squared difference of the outputs of the linears themselves. */
static enum status loss_linear(const struct search *s, double *loss, struct err *e)
{
    double sum = 0;
    for (int i = 0; i < s->n; i++) {
        const struct quant_linear *l = linear_at(s, i);
        each_tile(s, l, tile_loss);
        PASS(team_gather(s->b->team, s->sums, 1, TILE_ROWS, l->rows, e));
        for (int64_t k = 0; k < tile_count(l->rows); k++) sum += s->sums[k];
    }
    NEED(isfinite(sum), ERR_NUMERIC, "scaled weights give outputs that are not finite");
    *loss = sum / (double)(s->in->tokens * rows_of(s, false));
    return OK;
}

static void tile_trial(const struct search *s, const struct quant_linear *l, int64_t row)
{
    float *t = scratch_of(s);
    tile_try(s, l, row, t);
    tile_store(l->trial, l->rows, l->cols, row, 0, l->cols, NULL, t);
}

/* The same of the module's output. */
static enum status loss_module(const struct search *s, double *loss, struct err *e)
{
    for (int i = 0; i < s->n; i++) each_tile(s, linear_at(s, i), tile_trial);
    return s->b->compare(s->b, s->stage, loss, e);
}

/* --- scales --- */

/* sums (cols) of a tile = sum over its rows of |w| / (max |w| of the row's group + 1e-6). */
static void tile_weight(const struct search *s, const struct quant_linear *l, int64_t row)
{
    double *sums = s->sums + row / TILE_ROWS * l->cols;
    int64_t group = grid_group(s->b->options, l->cols), rows = min64(TILE_ROWS, l->rows - row);
    float *t = scratch_of(s), most[TILE_ROWS];
    tile_get(s, l, row, t);
    for (int64_t a = 0; a < l->cols; a += group) {
        int64_t end = min64(a + group, l->cols);
        for (int r = 0; r < TILE_ROWS; r++) most[r] = 0;
        for (int64_t j = a; j < end; j++)
            for (int r = 0; r < TILE_ROWS; r++) {
                float size = fabsf(t[j * TILE_ROWS + r]);
                most[r] = size > most[r] ? size : most[r];
            }
        for (int64_t j = a; j < end; j++) {
            sums[j] = 0;
            for (int r = 0; r < rows; r++)
                sums[j] += (double)(fabsf(t[j * TILE_ROWS + r]) / (most[r] + 1e-6f));
        }
    }
}

static enum status weight_make(struct search *s, struct err *e)
{
    int64_t cols = s->in->cols;
    memset(s->weight, 0, (size_t)cols * sizeof *s->weight);
    for (int i = 0; i < s->n; i++) {
        const struct quant_linear *l = linear_at(s, i);
        each_tile(s, l, tile_weight);
        PASS(team_gather(s->b->team, s->sums, cols, TILE_ROWS, l->rows, e));
        for (int64_t k = 0; k < tile_count(l->rows); k++)
            for (int64_t j = 0; j < cols; j++) s->weight[j] += s->sums[k * cols + j];
    }
    for (int64_t j = 0; j < cols; j++) s->weight[j] /= (double)rows_of(s, false);
    return OK;
}

/* The scales of exponent number k, normalised so that the largest is the inverse of the smallest.
 */
static void scale_make(struct search *s, int k)
{
    const double ratio = (double)k / AWQ_RATIOS;
    float least = INFINITY, most = 0;
    for (int64_t j = 0; j < s->in->cols; j++) {
        double x = pow(s->magnitude[j], ratio);
        if (s->weight) x /= pow(s->weight[j], 1 - ratio) + 1e-4;
        s->scale[j] = fmaxf((float)x, 1e-4f);
        least = fminf(least, s->scale[j]);
        most = fmaxf(most, s->scale[j]);
    }
    float middle = sqrtf(least * most);
    for (int64_t j = 0; j < s->in->cols; j++) {
        s->scale[j] /= middle;
        if (!isfinite(s->scale[j])) s->scale[j] = 1;
    }
}

enum status awq_sample(const struct quant_input *in, const struct mixing *mixing, float **out,
                       struct err *e)
{
    const int64_t n = sample_count(in->tokens) * in->cols;
    PASS(mem_alloc(out, n, sizeof **out, "sampled inputs", e));
    for (int64_t i = 0; i < n; i++) (*out)[i] = (float)in->statistic[STATISTIC_SAMPLE][i];
    return mixing_rows(mixing, *out, *out, 0, sample_count(in->tokens), false, e);
}

/* Mixed inputs have no statistic of their own: their mean is over the sampled tokens, as the clip
 * search's. */
static enum status magnitude_make(struct search *s, struct err *e)
{
    int64_t cols = s->in->cols, n = sample_count(s->in->tokens);
    const double *sums = s->in->statistic[STATISTIC_MAGNITUDE];
    AUTO_FREE float *x = NULL;
    for (int64_t j = 0; j < cols; j++) s->magnitude[j] = sums[j] / (double)s->in->tokens;
    if (!s->mixing) return OK;
    PASS(awq_sample(s->in, s->mixing, &x, e));
    memset(s->magnitude, 0, (size_t)cols * sizeof *s->magnitude);
    for (int64_t k = 0; k < n; k++)
        for (int64_t j = 0; j < cols; j++)
            s->magnitude[j] += (double)fabsf(x[k * cols + j]) / (double)n;
    return OK;
}

/* Tries all exponents; the first of the least loss remains. */
static enum status ratios_try(struct search *s, struct awq_linear *found, struct err *e)
{
    double least = INFINITY;
    for (int k = 0; k < AWQ_RATIOS; k++) {
        double loss;
        scale_make(s, k);
        PASS(s->gram ? loss_linear(s, &loss, e) : loss_module(s, &loss, e));
        for (int i = 0; i < s->n; i++) found[i].loss[k] = loss;
        if (!(loss < least)) continue;
        least = loss;
        for (int i = 0; i < s->n; i++) {
            found[i].ratio = k;
            memcpy(found[i].columns, s->scale, (size_t)s->in->cols * sizeof *s->scale);
        }
    }
    return OK;
}

/* The whole Gram matrix in f32, on every rank of the team. */
static enum status gram_spread(struct search *s, struct err *e)
{
    int64_t n = s->in->cols;
    AUTO_FREE double *mixed = NULL;
    struct quant_input in;
    enum status st = mixing_input(s->in, s->b->options, &in, &mixed, e);
    PASS(team_agree(s->b->team, st, e));
    const double *sums = in.statistic[STATISTIC_GRAM];
    for (int64_t i = 0; sums && i < n; i++)
        for (int64_t j = i; j < n; j++)
            s->gram[i * n + j] = s->gram[j * n + i] = (float)sums[i * n + j];
    return team_send(s->b->team, s->in->owner, s->gram, n * n * (int64_t)sizeof *s->gram, e);
}

static enum status room_make(struct search *s, struct awq_linear *found, bool duo, bool module,
                             struct err *e)
{
    int64_t cols = s->in->cols, tiles = tile_count(rows_of(s, true));
    for (int i = 0; i < s->n; i++)
        PASS(mem_alloc(&found[i].columns, cols, sizeof(float), "scales of channels", e));
    PASS(mem_alloc(&s->scale, cols, sizeof *s->scale, "scales of channels", e));
    PASS(mem_alloc(&s->magnitude, cols, sizeof *s->magnitude, "mean inputs", e));
    PASS(magnitude_make(s, e));
    if (duo) PASS(mem_alloc(&s->weight, cols, sizeof *s->weight, "mean weights", e));
    PASS(mem_alloc(&s->sums, tiles * (duo ? cols : 1), sizeof *s->sums, "sums of tiles", e));
    if (!module) PASS(mem_alloc(&s->gram, cols * cols, sizeof *s->gram, "the Gram matrix", e));
    return mem_alloc(&s->scratch, omp_get_max_threads() * 2 * cols * TILE_ROWS, sizeof *s->scratch,
                     "tiles of weights", e);
}

/* Searches the common scales of the linears [first, first + n) of the block. */
static enum status group_search(const struct quant_block *b, int stage, const struct mixing *mixing,
                                int first, int n, bool module, struct awq_linear *found,
                                struct err *e)
{
    enum status st = OK;
    bool duo = awq_options_of(b->options)->duo_scaling;
    struct search s = {
        .b = b, .in = &b->input[stage], .mixing = mixing, .stage = stage, .first = first, .n = n};
    TRY(team_agree(b->team, room_make(&s, found, duo, module, e), e));
    if (s.gram) TRY(gram_spread(&s, e));
    if (s.weight) TRY(weight_make(&s, e));
    TRY(ratios_try(&s, found, e));
done:
    free(s.magnitude);
    free(s.weight);
    free(s.scale);
    free(s.gram);
    free(s.scratch);
    free(s.sums);
    return st;
}

/* Whether something before the linear absorbs its scales, as far as the options allow. */
static bool foldable(const struct quant_linear *l, int scaled)
{
    if (l->tie == TIE_ACTIVATION) return scaled == SCALED_ACTIVATION;
    return scaled != SCALED_NONE && l->tie != TIE_NONE;
}

enum status awq_search(const struct quant_block *b, int stage, struct awq_stage *s, struct err *e)
{
    const struct awq_options *o = awq_options_of(b->options);
    const struct quant_linear *l = &b->linear[s->first];
    for (int i = 0; o->scaled == SCALED_FREE && i < s->n; i++) {
        s->linear[i].stored = true;
        PASS(group_search(b, stage, s->mixing, s->first + i, 1, false, &s->linear[i], e));
    }
    if (o->scaled == SCALED_FREE || !foldable(l, o->scaled)) return OK;
    /* Behind a norm is the input of the attention or the MLP; other linears end it. */
    bool module = o->judged == JUDGED_MODULE && l->tie == TIE_NORM;
    s->linear[0].stored = l->tie == TIE_ACTIVATION;
    return group_search(b, stage, s->mixing, s->first, s->n, module, s->linear, e);
}

int64_t awq_search_bytes(const struct quant_extent *x)
{
    int64_t tiles = tile_count(x->rows), numbers = tiles * x->cols;
    int64_t floats = x->cols * x->cols + x->threads * 2 * x->cols * TILE_ROWS;
    return floats * (int64_t)sizeof(float) + numbers * (int64_t)sizeof(double);
}

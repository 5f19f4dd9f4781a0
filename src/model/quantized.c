/* What a forward pass computes, in few bits (struct block, grids). */
#include "math/hadamard.h"
#include "model/model_internal.h"
#include <math.h>
#include <omp.h>

/* Columns that share a range of an input of so many columns; -1: all; 0: there are none. */
static int64_t input_group(const struct activation_grid *g, int64_t hidden, int64_t cols)
{
    const int64_t size = g->group_size;
    if (size < 0 || cols % size == 0) return size;
    return hidden % size == 0 && cols % (hidden / size) == 0 ? cols / (hidden / size) : 0;
}

static enum status check_heads(const struct activation_grid *g, const char *what, int64_t D,
                               struct err *e)
{
    NEED(!activation_quantizes(g) || g->group_size < 0 || D % g->group_size == 0, ERR_USAGE,
         "%s.group: %lld does not divide a head of %lld channels", what, (long long)g->group_size,
         (long long)D);
    return OK;
}

/* Channels of a head that a Hadamard matrix mixes. */
enum { HEAD_MAX = 1024 };

enum status model_check_grids(const struct model_shape *shape, const struct activation_grids *g,
                              struct err *e)
{
    const int64_t cols[] = {shape->hidden, shape->heads * shape->head_dim, shape->intermediate};
    NEED(g->inputs.o_group == 0 || cols[1] % g->inputs.o_group == 0, ERR_USAGE,
         "activations.o_group: %lld does not divide %lld columns", (long long)g->inputs.o_group,
         (long long)cols[1]);
    for (int i = 0; i < 3 && activation_quantizes(&g->inputs); i++)
        NEED((i == 1 && g->inputs.o_group > 0) || input_group(&g->inputs, shape->hidden, cols[i]),
             ERR_USAGE,
             "activations.group_size: %lld divides neither %lld columns nor the hidden size, %lld",
             (long long)g->inputs.group_size, (long long)cols[i], (long long)shape->hidden);
    if (g->keys.residual == 0) PASS(check_heads(&g->keys, "keys", shape->head_dim, e));
    for (int i = 0; i < 3 && g->inputs.outliers > 0; i++)
        NEED(g->inputs.outliers < cols[i], ERR_USAGE,
             "activations.outliers: %lld of %lld columns: expected fewer",
             (long long)g->inputs.outliers, (long long)cols[i]);
    PASS(check_heads(&g->values, "values", shape->head_dim, e));
    NEED(g->keys.rotation == RUN_ROTATION_NONE ||
             (hadamard_factor(shape->head_dim) == 1 && shape->head_dim <= HEAD_MAX),
         ERR_USAGE, "keys.rotation: heads of %lld channels; expected a power of two up to %d",
         (long long)shape->head_dim, HEAD_MAX);
    return OK;
}

void acts_note_broken(struct acts *a, int stage)
{
#pragma omp critical(acts_note_broken)
    if (a->broken == 0 || a->broken > 1 + stage) a->broken = 1 + stage;
}

/* Of inputs of the stage. */
static struct activation_grid stage_grid(const struct block *b, int stage)
{
    struct activation_grid g = b->grids->inputs;
    if (stage == STAGE_DOWN && g.down_bits > 0) g.bits = g.down_bits;
    if (stage == STAGE_O && g.o_group > 0) g.group_size = g.o_group;
    return g;
}

bool grids_coded(const struct block *b, int stage)
{
    if (!b->grids) return false;
    const struct activation_grid own = stage_grid(b, stage);
    for (int i = 0; i < b->n_linears; i++)
        if (b->linear[i].stage == stage && !b->linear[i].integers) return false;
    return activation_coded(&own);
}

/* A token of the stage's input, in place or into the codes. */
static void quantize_token(const struct activation_scale *s, int64_t row, int64_t cols, bool coded,
                           struct acts *a)
{
    float *x = a->in + row * cols;
    if (!coded) {
        activation_round(s, x, cols);
        return;
    }
    a->codes.scale[row] = s->scale;
    activation_codes(s, x, cols, a->codes.codes + row * cols, &a->codes.zero[row]);
}

/* The tokens [row, row + n) share one range. */
static void quantize_tensor(const struct activation_grid *g, int64_t row, int64_t n, int64_t cols,
                            bool coded, struct acts *a)
{
    const float *x = a->in + row * cols;
    const int threads = a->threads;
    float low = INFINITY, high = -INFINITY;
#pragma omp parallel for schedule(static) num_threads(threads) reduction(min                       \
                                                                         : low) reduction(max      \
                                                                                          : high)
    for (int64_t i = 0; i < n; i++) {
        struct activation_range r = ACTIVATION_EMPTY;
        activation_extend(&r, x + i * cols, cols);
        low = fminf(low, r.low);
        high = fmaxf(high, r.high);
    }
    const struct activation_scale s =
        activation_scale(g, (struct activation_range){low, high}, true);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t i = 0; i < n; i++) quantize_token(&s, row + i, cols, coded, a);
}

void grids_inputs(const struct model *m, const struct block *b, int stage, int64_t cols,
                  const struct sequences *s, int64_t s0, int64_t s1, struct acts *a)
{
    struct activation_grid g = stage_grid(b, stage);
    const int64_t group = input_group(&g, m->spec.shape.hidden, cols), first = s->offset[s0];
    const int64_t n = s->offset[s1] - first,
                  scratch = scores_floats(m->spec.shape.head_dim, a->in_width);
    const struct activation_inputs *own = &b->inputs[stage];
    const bool coded = grids_coded(b, stage);
    g.outliers = own->outliers;
    if (!activation_quantizes(&g)) return;
    const struct activation_scale whole =
        activation_scale(&g, (struct activation_range){-own->largest, own->largest}, true);
#pragma omp parallel for schedule(static) num_threads(a->threads)
    for (int64_t i = 0; i < n; i++)
        if (!activation_finite(a->in + i * cols, cols)) acts_note_broken(a, stage);
    for (int64_t i = s0; i < s1 && g.granularity == GRANULARITY_TENSOR; i++)
        quantize_tensor(&g, s->offset[i] - first, s->offset[i + 1] - s->offset[i], cols, coded, a);
    if (g.granularity == GRANULARITY_TENSOR) return;
#pragma omp parallel for schedule(static) num_threads(a->threads)
    for (int64_t i = 0; i < n; i++) {
        float *x = a->in + i * cols;
        if (g.granularity == GRANULARITY_STATIC)
            quantize_token(&whole, i, cols, coded, a);
        else if (own->order)
            activation_row_outliers(&g, group, own->order, x, cols,
                                    a->scores + omp_get_thread_num() * scratch);
        else if (group >= 0)
            activation_row(&g, group, x, cols);
        else {
            const struct activation_scale scale = activation_scale_of(&g, x, cols, true);
            quantize_token(&scale, i, cols, coded, a);
        }
    }
}

/* Every head's row of a tile: x (D) at columns `column` + h `stride`. */
struct rows {
    float *x;
    int64_t width, stride, heads, n, D;
};

static struct rows rows_of(const struct model *m, const struct tile *t, const struct acts *a,
                           int64_t column, int64_t heads)
{
    const struct spec *s = &m->spec;
    const int64_t D = s->shape.head_dim, width = qkv_width(s);
    return (struct rows){
        a->inner + t->row * width + column, width, s->fused ? 3 * D : D, heads, t->n, D};
}

static void quantize_heads(const struct rows *r, const struct activation_grid *g, int64_t group,
                           struct acts *a)
{
    for (int64_t i = 0; i < r->n; i++)
        for (int64_t h = 0; h < r->heads; h++) {
            float *x = r->x + i * r->width + h * r->stride;
            if (!activation_finite(x, r->D)) acts_note_broken(a, STAGE_O);
            if (g->residual == 0) activation_row(g, group, x, r->D);
        }
}

/* A token's heads share a range. */
static void quantize_outputs(const struct rows *r, const struct activation_grid *g, struct acts *a)
{
    for (int64_t i = 0; i < r->n; i++) {
        struct activation_range range = ACTIVATION_EMPTY;
        for (int64_t h = 0; h < r->heads; h++) {
            const float *x = r->x + i * r->width + h * r->stride;
            if (!activation_finite(x, r->D)) acts_note_broken(a, STAGE_O);
            activation_extend(&range, x, r->D);
        }
        const struct activation_scale s = activation_scale(g, range, true);
        for (int64_t h = 0; h < r->heads; h++)
            activation_round(&s, r->x + i * r->width + h * r->stride, r->D);
    }
}

void grids_outputs(const struct model *m, const struct block *b, const struct tile *t,
                   struct acts *a)
{
    const struct activation_grid g = {
        .bits = b->grids->inputs.qkv_bits, .symmetric = true, .clip = 1};
    const struct model_shape *s = &m->spec.shape;
    int64_t at[3];
    if (g.bits == 0) return;
    qkv_columns(&m->spec, 0, &at[0], &at[1], &at[2]);
    for (int i = 0; i < 3; i++) {
        const struct rows r = rows_of(m, t, a, at[i], i == 0 ? s->heads : s->kv_heads);
        quantize_outputs(&r, &g, a);
    }
}

/* x <- x H / sqrt(D) for every head, in f64. */
static void rotate_heads(const struct rows *r)
{
    const int8_t one = 1;
    double x[HEAD_MAX];
    for (int64_t i = 0; i < r->n; i++)
        for (int64_t h = 0; h < r->heads; h++) {
            float *row = r->x + i * r->width + h * r->stride;
            for (int64_t k = 0; k < r->D; k++) x[k] = row[k];
            hadamard_row(x, r->D, &one, 1, false, x);
            for (int64_t k = 0; k < r->D; k++) row[k] = (float)(x[k] / sqrt((double)r->D));
        }
}

void grids_keys(const struct model *m, const struct block *b, const struct tile *t, bool done,
                struct acts *a)
{
    const struct activation_grid *g = &b->grids->keys;
    int64_t q, k, v;
    if (!activation_quantizes(g) || done == g->before_rope) return;
    qkv_columns(&m->spec, 0, &q, &k, &v);
    const struct rows keys = rows_of(m, t, a, k, m->spec.shape.kv_heads);
    const struct rows queries = rows_of(m, t, a, q, m->spec.shape.heads);
    if (g->rotation == RUN_ROTATION_HADAMARD) rotate_heads(&keys);
    if (g->rotation == RUN_ROTATION_HADAMARD) rotate_heads(&queries);
    quantize_heads(&keys, g, g->group_size, a);
}

void grids_values(const struct model *m, const struct block *b, const struct tile *t,
                  struct acts *a)
{
    const struct activation_grid *g = &b->grids->values;
    int64_t q, k, v;
    if (!activation_quantizes(g)) return;
    qkv_columns(&m->spec, 0, &q, &k, &v);
    const struct rows values = rows_of(m, t, a, v, m->spec.shape.kv_heads);
    quantize_heads(&values, g, g->group_size < 0 ? values.D : g->group_size, a);
}

#include "model/rotated.h"
#include "model/model_internal.h"
#include "util/mem.h"
#include "util/num.h"
#include <math.h>
#include <omp.h>
#include <stdio.h>

/* --- what a family admits --- */

enum status model_check_rotation(const struct spec *s, unsigned places, struct err *e)
{
    const bool post = s->arch->place == NORM_POST, clipped = s->clip > 0;
    const bool sub = s->arch->attn_sub_norm;
    NEED(!places || s->linears == BITNET_NONE, ERR_USAGE,
         "rotation: the inputs of this %s's linears are rounded to 8 bits, which no rotation goes "
         "through",
         s->arch->name);
    NEED(!(places & ROTATE_R2) || !sub, ERR_USAGE,
         "rotation: R2: %s has a norm with a scale for each channel between the values and o; it "
         "admits R1 and R4",
         s->arch->name);
    NEED(
        !(places & ROTATE_R1) || !post, ERR_USAGE,
        "rotation: %s: the norms of %s come after attention and MLP, where no linear absorbs their "
        "scales; it admits R2 and R4",
        places & ROTATE_RANDOM ? "Q1" : "R1", s->arch->name);
    NEED(!(places & ROTATE_R2) || !clipped, ERR_USAGE,
         "rotation: R2: this %s clips its values to %g (clip_qkv), which no rotation of them goes "
         "through; it admits %sR4",
         s->arch->name, s->clip, post ? "" : "R1 and ");
    return OK;
}

/* --- the matrices --- */

void rotation_free(struct rotation *r)
{
    if (!r) return;
    mix_free(&r->stream);
    mix_free(&r->last);
    mix_free(&r->heads);
    for (int64_t i = 0; i < r->layers; i++) mix_free(&r->head[i]);
    free(r->head);
    free(r->scratch);
    free(r);
}

static int64_t widest(const struct model_shape *s)
{
    return max64(max64(s->hidden, s->intermediate), (s->heads + 2 * s->kv_heads) * s->head_dim);
}

/* Random streams: R1, and R2 of block i at 1 + i. */
static enum status make_matrices(struct rotation *r, const struct model_shape *s, uint64_t seed,
                                 struct err *e)
{
    const char *what = "rotations";
    r->width = widest(s);
    PASS(mem_alloc(&r->scratch, omp_get_max_threads() * (ROTATED_COLUMNS + 2) * r->width,
                   sizeof *r->scratch, what, e));
    if (r->places & ROTATE_RANDOM)
        PASS(mix_make_dense(&r->stream, s->hidden, seed, 0, e));
    else if (r->places & ROTATE_R1)
        PASS(mix_make(&r->stream, s->hidden, MIX_BEFORE, seed, 0, e));
    if (r->places & ROTATE_R4) PASS(mix_make(&r->last, s->intermediate, MIX_NO_SIGNS, 0, 0, e));
    if (r->places & ROTATE_HEADS) PASS(mix_make(&r->heads, s->heads, MIX_NO_SIGNS, 0, 0, e));
    if (!(r->places & ROTATE_R2)) return OK;
    PASS(mem_zero(&r->head, s->layers, sizeof *r->head, what, e));
    for (; r->layers < s->layers; r->layers++)
        PASS(mix_make(&r->head[r->layers], s->head_dim, MIX_BEFORE, seed, 1 + (uint64_t)r->layers,
                      e));
    return OK;
}

enum status model_rotate(const struct model *m, unsigned places, uint64_t seed, struct model **out,
                         struct err *e)
{
    CLEANUP(model_close_at) struct model *own = NULL;
    PASS(model_check_rotation(&m->spec, places, e));
    PASS(mem_alloc(&own, 1, sizeof *own, "a rotated model", e));
    *own = *m;
    own->borrows = true;
    own->rotation = NULL;
    PASS(mem_zero(&own->rotation, 1, sizeof *own->rotation, "rotations", e));
    own->rotation->places = places;
    PASS(make_matrices(own->rotation, &m->spec.shape, seed, e));
    *out = TAKE(own);
    return OK;
}

/* --- rows --- */

static double *scratch_of(const struct rotation *r)
{
    return r->scratch + omp_get_thread_num() * (ROTATED_COLUMNS + 2) * r->width;
}

static bool centres(const struct model *m)
{
    return m->spec.arch->norm != NORM_RMS;
}

static void centre(double *x, int64_t n)
{
    double sum = 0;
    for (int64_t j = 0; j < n; j++) sum += x[j];
    for (int64_t j = 0; j < n; j++) x[j] -= sum / (double)n;
}

void rotation_stream(const struct model *m, float *x, int64_t n, bool back)
{
    const struct rotation *r = m->rotation;
    const int64_t C = m->spec.shape.hidden;
    if (!r || !(r->places & ROTATE_R1)) return;
    double *row = scratch_of(r);
    for (int64_t i = 0; i < n; i++, x += C) {
        for (int64_t j = 0; j < C; j++) row[j] = x[j];
        if (!back && centres(m)) centre(row, C);
        mix_row(&r->stream, row, back, row + r->width);
        for (int64_t j = 0; j < C; j++) x[j] = (float)row[j];
    }
}

/* x (heads, D): the same channel of all heads together. scratch: 2 heads. */
static void mix_heads(const struct rotation *r, double *x, int64_t D, bool back, double *scratch)
{
    const int64_t n = r->heads.n;
    for (int64_t k = 0; k < D; k++) {
        for (int64_t h = 0; h < n; h++) scratch[h] = x[h * D + k];
        mix_row(&r->heads, scratch, back, scratch + n);
        for (int64_t h = 0; h < n; h++) x[h * D + k] = scratch[h];
    }
}

/* What is done to a stage's inputs, or to rows of its weights, at run time ... */
static void turn_running(const struct rotation *r, const struct model_shape *s, int stage,
                         double *x, bool back, double *scratch)
{
    if (stage == STAGE_O && r->places & ROTATE_HEADS) mix_heads(r, x, s->head_dim, back, scratch);
    if (stage == STAGE_DOWN && r->places & ROTATE_R4) mix_row(&r->last, x, back, scratch);
}

bool rotation_runs(const struct block *b, int stage)
{
    const struct rotation *r = b->rotation;
    return r && ((stage == STAGE_O && r->places & ROTATE_HEADS) ||
                 (stage == STAGE_DOWN && r->places & ROTATE_R4));
}

/* ... and what the tensors before it have done. */
static void turn_given(const struct rotation *r, const struct model_shape *s, int64_t layer,
                       int stage, double *x, bool back, double *scratch)
{
    if ((stage == STAGE_QKV || stage == STAGE_UP) && r->places & ROTATE_R1)
        mix_row(&r->stream, x, back, scratch);
    for (int64_t h = 0; stage == STAGE_O && r->places & ROTATE_R2 && h < s->heads; h++)
        mix_row(&r->head[layer], x + h * s->head_dim, back, scratch);
}

void rotation_inputs(const struct model *m, const struct block *b, int stage, int64_t cols,
                     int64_t n, struct acts *a)
{
    const struct rotation *r = b->rotation;
#pragma omp parallel for schedule(static) num_threads(a->threads)
    for (int64_t i = 0; i < n; i++) {
        double *row = scratch_of(r);
        float *x = a->in + i * cols;
        for (int64_t j = 0; j < cols; j++) row[j] = x[j];
        turn_running(r, &m->spec.shape, stage, row, false, row + r->width);
        for (int64_t j = 0; j < cols; j++) x[j] = (float)row[j];
    }
}

/* --- blocks --- */

/* A linear in f64 while it is turned. */
struct turned {
    const struct model *m;
    int64_t layer, rows, cols;
    int stage, index;           /* of the linear in its block */
    bool back;                  /* from the rotated basis */
    const float *scale, *shift; // (cols) of the norm before it; NULL: none
    double *w, *bias;           // (rows, cols), (rows)
};

static void turn_rows(const struct turned *t)
{
    const struct rotation *r = t->m->rotation;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < t->rows; i++) {
        double *x = t->w + i * t->cols, *scratch = scratch_of(r);
        for (int64_t j = 0; t->shift && j < t->cols; j++) t->bias[i] += x[j] * t->shift[j];
        for (int64_t j = 0; t->scale && j < t->cols; j++) x[j] *= t->scale[j];
        if (t->back) turn_running(r, &t->m->spec.shape, t->stage, x, true, scratch);
        turn_given(r, &t->m->spec.shape, t->layer, t->stage, x, t->back, scratch);
        if (!t->back) turn_running(r, &t->m->spec.shape, t->stage, x, false, scratch);
    }
}

/* The role of a block's linear: those that the family has, in order. */
static int role_of(const struct arch *a, int index)
{
    int role = 0;
    for (; !a->linear[role] || index > 0; role++) index -= a->linear[role] != NULL;
    return role;
}

int64_t rotation_values(const struct model *m, int index, int64_t head)
{
    const struct spec *s = &m->spec;
    const int role = role_of(s->arch, index);
    int64_t q, k, v;
    if (role == ROLE_V) return head * s->shape.head_dim;
    qkv_columns(s, 0, &q, &k, &v);
    return role == ROLE_QKV ? v + 3 * head * s->shape.head_dim : -1;
}

/* x (rows): one column, or the bias. */
static void turn_outputs(const struct turned *t, double *x, double *scratch)
{
    const struct rotation *r = t->m->rotation;
    const struct spec *s = &t->m->spec;
    if ((t->stage == STAGE_O || t->stage == STAGE_DOWN) && r->places & ROTATE_R1) {
        if (centres(t->m) && !t->back) centre(x, t->rows);
        mix_row(&r->stream, x, t->back, scratch);
    }
    if (!(r->places & ROTATE_R2) || rotation_values(t->m, t->index, 0) < 0) return;
    for (int64_t h = 0; h < s->shape.kv_heads; h++)
        mix_row(&r->head[t->layer], x + rotation_values(t->m, t->index, h), t->back, scratch);
}

static void turn_columns(const struct turned *t)
{
#pragma omp parallel for schedule(static)
    for (int64_t j0 = 0; j0 < t->cols; j0 += ROTATED_COLUMNS) {
        const int64_t n = min64(ROTATED_COLUMNS, t->cols - j0), rows = t->rows;
        double *x = scratch_of(t->m->rotation), *scratch = x + n * rows;
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = 0; j < n; j++) x[j * rows + i] = t->w[i * t->cols + j0 + j];
        for (int64_t j = 0; j < n; j++) turn_outputs(t, x + j * rows, scratch);
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = 0; j < n; j++) t->w[i * t->cols + j0 + j] = x[j * rows + i];
    }
}

static struct turned turned_of(const struct model *m, const struct block *b, int index, double *w,
                               double *bias)
{
    const struct linear *l = &b->linear[index];
    return (struct turned){.m = m,
                           .layer = b->layer,
                           .rows = l->rows,
                           .cols = l->cols,
                           .stage = l->stage,
                           .index = index,
                           .w = w,
                           .bias = bias};
}

void rotation_back(const struct model *m, const struct block *b, int index, double *w, double *bias)
{
    struct turned t = turned_of(m, b, index, w, bias);
    t.back = true;
    if (w) {
        turn_rows(&t);
        turn_columns(&t);
    }
    if (bias) turn_outputs(&t, bias, scratch_of(m->rotation));
}

static enum status store(const struct turned *t, const char *name, float *w, float *bias,
                         struct err *e)
{
    bool finite = true;
#pragma omp parallel for schedule(static) reduction(&& : finite)
    for (int64_t i = 0; i < t->rows * t->cols; i++) {
        w[i] = (float)t->w[i];
        finite = finite && isfinite(w[i]);
    }
    for (int64_t i = 0; i < t->rows; i++) {
        bias[i] = (float)t->bias[i];
        finite = finite && isfinite(bias[i]);
    }
    NEED(finite, ERR_NUMERIC, "%s: rotation gave a number that is not finite", name);
    return OK;
}

/* Linear i of b into *own, whose weights are at w and whose bias behind them. work: as many f64. */
static enum status turn_linear(const struct model *m, const struct block *b, int i,
                               struct linear *own, float *w, double *work, struct err *e)
{
    const struct linear *l = &b->linear[i];
    const int64_t n = l->rows * l->cols;
    const bool folds =
        m->rotation->places & ROTATE_R1 && (l->stage == STAGE_QKV || l->stage == STAGE_UP);
    const int norm = l->stage == STAGE_QKV ? EXTRA_ATTN_NORM : EXTRA_MLP_NORM;
    struct turned t = turned_of(m, b, i, work, work + n);
    t.scale = folds ? b->extra->p[norm] : NULL;
    t.shift = folds ? b->extra->p[norm + 1] : NULL;
    for (int64_t k = 0; k < n; k++) t.w[k] = l->w[k];
    for (int64_t k = 0; k < l->rows; k++) t.bias[k] = l->bias ? l->bias[k] : 0;
    turn_rows(&t);
    turn_columns(&t);
    turn_outputs(&t, t.bias, scratch_of(m->rotation));
    *own = (struct linear){.stage = l->stage,
                           .rows = l->rows,
                           .cols = l->cols,
                           .w = w,
                           .bias = l->bias || t.shift ? w + n : NULL};
    PASS(store(&t, l->name, w, w + n, e));
    return mem_string(&own->name, l->name, e);
}

enum status model_block_rotate(const struct model *m, const struct block *b, struct block *out,
                               struct err *e)
{
    CLEANUP(model_block_free)
    struct block own = {
        .layer = b->layer, .n_linears = b->n_linears, .grids = b->grids, .rotation = m->rotation};
    int64_t size = 0, largest = 0;
    AUTO_FREE double *work = NULL;
    for (int i = 0; i < b->n_linears; i++) {
        const int64_t n = (b->linear[i].cols + 1) * b->linear[i].rows;
        size += n;
        largest = max64(largest, n);
    }
    PASS(mem_alloc(&own.storage, size, sizeof *own.storage, "a rotated block", e));
    PASS(mem_alloc(&own.extra, 1, sizeof *own.extra, "a rotated block", e));
    PASS(mem_alloc(&work, largest, sizeof *work, "a rotated linear", e));
    *own.extra = *b->extra;
    own.extra->rms = m->rotation->places & ROTATE_R1;
    for (int k = EXTRA_ATTN_NORM; own.extra->rms && k <= EXTRA_MLP_NORM_BIAS; k++)
        own.extra->p[k] = NULL;
    float *at = own.storage;
    for (int i = 0; i < b->n_linears; i++) {
        PASS(turn_linear(m, b, i, &own.linear[i], at, work, e));
        at += (b->linear[i].cols + 1) * b->linear[i].rows;
    }
    *out = own;
    own = (struct block){0};
    return OK;
}

/* --- plans and records --- */

int64_t model_rotated_bytes(const struct model_sizes *m, int64_t threads, unsigned places)
{
    const int64_t n = m->shape.hidden, matrix = places & ROTATE_RANDOM ? n * n : 0;
    if (threads == 0) return matrix * (int64_t)sizeof(double);
    /* The block; a linear in f64, which is at most a block of f32 twice as large; scratch. */
    return 3 * m->linears * (int64_t)sizeof(float) +
           (matrix + threads * (ROTATED_COLUMNS + 2) * widest(&m->shape)) * (int64_t)sizeof(double);
}

static void add_text(char *text, bool has, const char *name, int64_t n)
{
    const struct mix m = mix_shape(n);
    const size_t used = strlen(text), left = ROTATION_TEXT - used;
    const char *comma = used ? ", " : "";
    if (has && m.part == n)
        snprintf(text + used, left, "%s%s %lld", comma, name, (long long)n);
    else if (has)
        snprintf(text + used, left, "%s%s %lld × %lld", comma, name, (long long)m.part,
                 (long long)(n / m.part));
}

void model_rotation_text(const struct model *m, char text[ROTATION_TEXT])
{
    const unsigned places = m->rotation->places;
    const struct model_shape *s = &m->spec.shape;
    text[0] = 0;
    if (places & ROTATE_RANDOM)
        snprintf(text, ROTATION_TEXT, "Q1 %lld", (long long)s->hidden);
    else
        add_text(text, places & ROTATE_R1, "R1", s->hidden);
    add_text(text, places & ROTATE_R2, "R2", s->head_dim);
    add_text(text, places & ROTATE_R4, "R4", s->intermediate);
    add_text(text, places & ROTATE_HEADS, "heads", s->heads);
    const size_t used = strlen(text);
    if (m->rotation->steps)
        snprintf(text + used, ROTATION_TEXT - used, ", learned in %lld steps",
                 (long long)m->rotation->steps);
}

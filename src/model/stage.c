/* The forward pass of a block, stage by stage. */
#include "activation/bitnet.h"
#include "math/kern_bf16.h"
#include "math/linalg.h"
#include "math/row.h"
#include "model/model_internal.h"
#include "util/num.h"
#include <string.h>

/* Tokens, and rows of the weight matrix, in one GEMM: square, where packing costs least. */
enum { GEMM_TOKENS = 2 * TOKEN_TILE, GEMM_ROWS = 512 };

static int64_t stage_cols(const struct block *b, int stage)
{
    for (int i = 0; i < b->n_linears; i++)
        if (b->linear[i].stage == stage) return b->linear[i].cols;
    return 0;
}

/* Output values per token of the stage's linears together, which lie side by side. */
static int64_t stage_rows(const struct block *b, int stage)
{
    int64_t rows = 0;
    for (int i = 0; i < b->n_linears; i++)
        if (b->linear[i].stage == stage) rows += b->linear[i].rows;
    return rows;
}

/* The sublayer's input: normed, or copied in families whose norms come after the sublayer. */
static void enter(const struct model *m, const struct block *b, int norm, const float *x, int64_t T,
                  float *y)
{
    const int64_t C = m->spec.shape.hidden;
    if (m->spec.arch->place == NORM_POST)
        memcpy(y, x, (size_t)(T * C) * sizeof *y);
    else
        norm_rows(m, b->extra->rms, b->extra->p[norm], b->extra->p[norm + 1], C, x, C, T, y);
}

/* y (T, I) = activation of inner (T, 2I: gate, up) or (T, I). */
static void activate(const struct model *m, const struct block *b, const float *inner, int64_t T,
                     float *y)
{
    const struct spec *s = &m->spec;
    static void (*const kernels[])(float *y, const float *x,
                                   int64_t n) = {[ACT_SILU] = kern_silu,
                                                 [ACT_GELU] = kern_gelu,
                                                 [ACT_GELU_TANH] = kern_gelu_tanh,
                                                 [ACT_RELU2] = kern_relu2};
    int64_t I = s->shape.intermediate, width = s->gated ? 2 * I : I;
    const struct xielu xielu =
        m->rounded && s->activation == ACT_XIELU ? block_xielu_bf16(b) : b->extra->xielu;
    for (int64_t t = 0; t < T; t++, inner += width, y += I) {
        if (s->activation == ACT_SILU && s->gated && !m->rounded) {
            kern_silu_mul(y, inner, inner + I, I);
            continue;
        }
        if (s->activation == ACT_XIELU)
            (m->rounded ? kern_bf16_xielu : kern_xielu)(y, inner, I, &xielu);
        else
            kernels[s->activation](y, inner, I);
        if (m->rounded) kern_bf16_round(y, y, I);
        if (s->gated) kern_mul(y, inner + I, I);
        if (s->gated && m->rounded) kern_bf16_round(y, y, I);
    }
}

/* Tokens whose input of a stage is written, and split into terms while it is in the cache. */
enum { STRIP = 16 };

/* The stage's input of tokens [row, row + n) of the range; x: the residual stream of the range. */
static void enter_rows(const struct model *m, const struct block *b, int stage, int64_t row,
                       int64_t n, const float *x, struct acts *a)
{
    const int64_t C = m->spec.shape.hidden, up = stage_rows(b, STAGE_UP);
    float *in = a->in + row * stage_cols(b, stage);
    if (stage == STAGE_QKV) enter(m, b, EXTRA_ATTN_NORM, x + row * C, n, in);
    if (stage == STAGE_UP) enter(m, b, EXTRA_MLP_NORM, x + row * C, n, in);
    if (stage == STAGE_DOWN) activate(m, b, a->inner + row * up, n, in);
}

/* Splits an input whose terms are not there yet. */
static void split_input(int64_t cols, const struct sequences *s, int64_t s0, int64_t s1,
                        struct acts *a)
{
    acts_cut(a, s, s0, s1, TOKEN_TILE, false);
#pragma omp parallel for schedule(static) num_threads(a->threads)
    for (int64_t i = 0; i < a->n_tiles; i++)
        acts_split(a, a->tiles[i].row * cols, a->tiles[i].n * cols);
}

/* x: residual stream of the sequences [s0, s1). split: into bf16 terms too. */
static void plain_input(const struct model *m, const struct block *b, int stage,
                        const struct sequences *s, int64_t s0, int64_t s1, const float *x,
                        struct acts *a, bool split)
{
    const int64_t cols = stage_cols(b, stage);
    if (stage == STAGE_O) {
        acts_cut(a, s, s0, s1, TOKEN_TILE, true);
        attention_forward(m, b, a, split);
        return;
    }
    acts_cut(a, s, s0, s1, TOKEN_TILE, false);
#pragma omp parallel for schedule(static) num_threads(a->threads)
    for (int64_t i = 0; i < a->n_tiles; i++) {
        const int64_t end = a->tiles[i].row + a->tiles[i].n;
        for (int64_t row = a->tiles[i].row; row < end; row += STRIP) {
            const int64_t n = min64(end - row, STRIP);
            enter_rows(m, b, stage, row, n, x, a);
            if (split) acts_split(a, row * cols, n * cols);
        }
    }
}

/* The extra of the norm of a stage's inputs; -1: none. */
static int sub_norm(const struct spec *s, int stage)
{
    const int norm[STAGE_N] = {-1, s->arch->attn_sub_norm ? EXTRA_ATTN_SUB_NORM : -1, -1,
                               s->arch->mlp_sub_norm ? EXTRA_MLP_SUB_NORM : -1};
    return norm[stage];
}

/* What the family does to n tokens of a stage's inputs of so many columns: a norm, 8 bits. */
static void own_input(const struct model *m, const struct block *b, int stage, int64_t cols,
                      int64_t n, struct acts *a)
{
    const int norm = sub_norm(&m->spec, stage);
#pragma omp parallel for schedule(static) num_threads(a->threads)
    for (int64_t i = 0; i < n; i++) {
        float *x = a->in + i * cols;
        if (norm >= 0) norm_rows(m, true, b->extra->p[norm], NULL, cols, x, cols, 1, x);
        if (m->spec.linears == BITNET_NONE) continue;
        bitnet_inputs(x, cols);
        if (m->rounded) kern_bf16_round(x, x, cols);
    }
}

/* The same, and the norm and rounding that the family has, rotated, and quantized by the block's
 * grids. */
static void make_input(const struct model *m, const struct block *b, int stage,
                       const struct sequences *s, int64_t s0, int64_t s1, const float *x,
                       struct acts *a, bool split)
{
    const bool quantizes = b->grids && activation_quantizes(&b->grids->inputs);
    const bool turns = rotation_runs(b, stage);
    const int64_t cols = stage_cols(b, stage);
    const bool own = sub_norm(&m->spec, stage) >= 0 || m->spec.linears != BITNET_NONE;
    plain_input(m, b, stage, s, s0, s1, x, a, split && !quantizes && !turns && !own);
    if (!quantizes && !turns && !own) return;
    if (own) own_input(m, b, stage, cols, s->offset[s1] - s->offset[s0], a);
    if (turns) rotation_inputs(m, b, stage, cols, s->offset[s1] - s->offset[s0], a);
    if (quantizes) grids_inputs(m, b, stage, cols, s, s0, s1, a);
    if (split && !grids_coded(b, stage)) split_input(cols, s, s0, s1, a);
}

void model_stage_input(const struct model *m, const struct block *b, int stage,
                       const struct sequences *s, int64_t s0, int64_t s1, const float *x,
                       struct acts *a)
{
    make_input(m, b, stage, s, s0, s1, x + s->offset[s0] * m->spec.shape.hidden, a, false);
}

/* Rows per GEMM of a weight matrix: equal parts of about GEMM_ROWS, a multiple of 16, because
 * packing for a short last part would cost nearly as much as for a long one. */
int64_t linear_piece(int64_t rows)
{
    int64_t parts = (rows + GEMM_ROWS / 2) / GEMM_ROWS;
    if (parts < 2) return rows;
    return (rows + parts * 16 - 1) / (parts * 16) * 16;
}

/* A piece of a stage: rows [r0, r0 + n) of one linear, whose outputs start at `column`. */
struct piece {
    const struct linear *l;
    int64_t r0, n, column;
    bool coded; /* its inputs are codes */
};

/* The i-th piece of the stage; false after the last. */
static bool stage_piece(const struct block *b, int stage, int64_t i, struct piece *p)
{
    int64_t column = 0;
    for (int k = 0; k < b->n_linears; k++) {
        const struct linear *l = &b->linear[k];
        if (l->stage != stage) continue;
        int64_t part = linear_piece(l->rows), chunks = (l->rows + part - 1) / part, r0 = i * part;
        if (i < chunks) {
            *p = (struct piece){l, r0, min64(l->rows - r0, part), column + r0,
                                grids_coded(b, stage)};
            return true;
        }
        i -= chunks;
        column += l->rows;
    }
    return false;
}

static void run_piece(const struct model *m, const struct piece *p, const struct tile *t,
                      const struct acts *a, float *out, int64_t ld)
{
    const struct linear *l = p->l;
    const int64_t cols = l->cols, number = p->r0 / linear_piece(l->rows);
    const float *in = a->in + t->row * cols, *bias = l->bias ? l->bias + p->r0 : NULL;
    float *y = out + t->row * ld + p->column;
    const bool f32 = a->products == PRODUCTS_F32, large = mat_large(t->n, p->n, cols);
    if (l->prepared && !l->apply && f32 && large && !p->coded) {
        product_nt_f32(y, ld, in, l->prepared, number, t->n, m->rounded ? NULL : bias);
        if (m->rounded) kern_bf16_bias(y, ld, bias, t->n, p->n);
        return;
    }
    if (p->coded) {
        const struct integer_inputs codes = {a->codes.codes + t->row * cols,
                                             a->codes.scale + t->row, a->codes.zero + t->row};
        product_integers(y, ld, &codes, l->integers, number, t->n);
    } else if (l->prepared && !l->apply && !f32)
        product_nt(a->products, y, ld, a->terms + t->row * cols, a->tokens * a->in_width,
                   l->prepared, number, t->n);
    else if (!l->apply)
        product_plain(y, ld, in, l->w + p->r0 * cols, t->n, p->n, cols);
    if (m->rounded)
        kern_bf16_bias(y, ld, bias, t->n, p->n);
    else if (bias)
        row_add_bias(y, ld, bias, t->n, p->n);
}

/* The products of linears that work at run time, one whole sequence at a time. */
static void apply_linears(const struct block *b, int stage, const struct sequences *s, int64_t s0,
                          int64_t s1, struct acts *a, float *out)
{
    int64_t column = 0, ld = stage_rows(b, stage);
    for (int k = 0; k < b->n_linears; k++) {
        const struct linear *l = &b->linear[k];
        if (l->stage != stage) continue;
        for (int64_t i = s0; l->apply && i < s1; i++) {
            int64_t row = s->offset[i] - s->offset[s0], tokens = s->offset[i + 1] - s->offset[i];
            const float *in = a->in + row * l->cols;
            if (!l->apply(l->computing, in, tokens, out + row * ld + column, ld))
                acts_note_broken(a, stage);
        }
        column += l->rows;
    }
}

/* y (n) += x. */
static void add(const struct model *m, float *y, const float *x, int64_t n)
{
    row_axpy(y, 1, x, n);
    if (m->rounded) kern_bf16_round(y, y, n);
}

/* Adds the sublayer's output y to the residual stream x. With parallel residual, the attention's
 * output stays in a->branch until the MLP has read the block's input. */
static void leave(const struct model *m, const struct block *b, int stage, const struct tile *t,
                  float *y, float *x, const struct acts *a)
{
    const struct spec *s = &m->spec;
    int64_t C = s->shape.hidden, n = t->n;
    int norm = stage == STAGE_O ? EXTRA_ATTN_NORM : EXTRA_MLP_NORM;
    y += t->row * C;
    x += t->row * C;
    if (stage == STAGE_O && s->parallel) return;
    if (s->arch->place == NORM_POST)
        norm_rows(m, false, b->extra->p[norm], b->extra->p[norm + 1], C, y, C, n, y);
    if (s->parallel) add(m, y, a->branch + t->row * C, n * C);
    add(m, x, y, n * C);
}

/* The stage's output from a->in, whose terms are there already; x as in make_input. */
static void make_output(const struct model *m, const struct block *b, int stage,
                        const struct sequences *s, int64_t s0, int64_t s1, float *x, struct acts *a)
{
    const struct spec *spec = &m->spec;
    float *out = stage == STAGE_O ? a->branch : a->inner;
    int64_t ld = stage_rows(b, stage), pieces = 0;
    struct piece p;
    while (stage_piece(b, stage, pieces, &p)) pieces++;
    for (int64_t i = s0; i < s1 && stage == STAGE_QKV; i++)
        acts_angles(spec, a, s->offset[i + 1] - s->offset[i]);
    apply_linears(b, stage, s, s0, s1, a, out);
    acts_cut(a, s, s0, s1, GEMM_TOKENS, false);
#pragma omp parallel for schedule(dynamic, 1) num_threads(a->threads) private(p)
    for (int64_t i = 0; i < a->n_tiles * pieces; i++)
        if (stage_piece(b, stage, i % pieces, &p))
            run_piece(m, &p, &a->tiles[i / pieces], a, out, ld);
    acts_cut(a, s, s0, s1, TOKEN_TILE, true);
#pragma omp parallel for schedule(static) num_threads(a->threads)
    for (int64_t i = 0; i < a->n_tiles; i++) {
        if (stage == STAGE_QKV) attention_prepare(m, b, &a->tiles[i], a);
        if (stage == STAGE_O || stage == STAGE_DOWN) leave(m, b, stage, &a->tiles[i], out, x, a);
    }
}

void model_stage_output(const struct model *m, const struct block *b, int stage,
                        const struct sequences *s, int64_t s0, int64_t s1, float *x, struct acts *a)
{
    if (a->products != PRODUCTS_F32) split_input(stage_cols(b, stage), s, s0, s1, a);
    make_output(m, b, stage, s, s0, s1, x + s->offset[s0] * m->spec.shape.hidden, a);
}

/* The end of the group of sequences that begins with s0 and is processed together. */
static int64_t group_end(const struct sequences *s, int64_t s0, const struct acts *a)
{
    const int64_t enough =
        (int64_t)a->threads * 4 *
        TOKEN_TILE; /* more tokens than this lose more in the caches than they gain */
    int64_t s1 = s0 + 1;
    for (; s1 < s->n; s1++) {
        const int64_t tokens = s->offset[s1 + 1] - s->offset[s0];
        if (tokens > a->tokens || tokens > enough) break;
    }
    return s1;
}

void model_block_forward(const struct model *m, const struct block *b, const struct sequences *s,
                         float *x, struct acts *a)
{
    for (int64_t s0 = 0, s1; s0 < s->n; s0 = s1) {
        s1 = group_end(s, s0, a);
        float *own = x + s->offset[s0] * m->spec.shape.hidden;
        for (int stage = 0; stage < STAGE_N; stage++) {
            make_input(m, b, stage, s, s0, s1, own, a, a->products != PRODUCTS_F32);
            make_output(m, b, stage, s, s0, s1, own, a);
        }
    }
}

/* Moves the wanted ones of n rows of x, of so many bytes, to the front. */
static void rows_gather(void *x, size_t bytes, const bool *wanted, int64_t n)
{
    char *to = x;
    for (int64_t t = 0; t < n; t++) {
        if (!wanted[t]) continue;
        memmove(to, (char *)x + (size_t)t * bytes, bytes);
        to += bytes;
    }
}

void model_block_forward_rows(const struct model *m, const struct block *b,
                              const struct sequences *s, const bool *wanted,
                              const struct sequences *some, float *x, struct acts *a)
{
    const int64_t C = m->spec.shape.hidden, cols = stage_cols(b, STAGE_O);
    const bool split = a->products != PRODUCTS_F32, coded = grids_coded(b, STAGE_O);
    bool whole = b->grids && b->grids->inputs.granularity == GRANULARITY_TENSOR;
    for (int i = 0; i < b->n_linears; i++) whole = whole || b->linear[i].apply;
    if (whole) { /* the input of a linear counts as a sequence's */
        model_block_forward(m, b, s, x, a);
        return;
    }
    for (int64_t s0 = 0, s1; s0 < s->n; s0 = s1) {
        s1 = group_end(s, s0, a);
        const int64_t first = s->offset[s0], n = s->offset[s1] - first;
        const int64_t k = some->offset[s1] - some->offset[s0];
        float *own = x + first * C;
        if (k == 0) continue;
        make_input(m, b, STAGE_QKV, s, s0, s1, own, a, split);
        make_output(m, b, STAGE_QKV, s, s0, s1, own, a);
        make_input(m, b, STAGE_O, s, s0, s1, own, a, false);
        rows_gather(own, (size_t)C * sizeof *own, wanted + first, n);
        if (coded) {
            rows_gather(a->codes.codes, (size_t)cols, wanted + first, n);
            rows_gather(a->codes.scale, sizeof *a->codes.scale, wanted + first, n);
            rows_gather(a->codes.zero, sizeof *a->codes.zero, wanted + first, n);
        } else {
            rows_gather(a->in, (size_t)cols * sizeof *a->in, wanted + first, n);
        }
        if (split && !coded) split_input(cols, some, s0, s1, a);
        make_output(m, b, STAGE_O, some, s0, s1, own, a);
        for (int stage = STAGE_O + 1; stage < STAGE_N; stage++) {
            make_input(m, b, stage, some, s0, s1, own, a, split);
            make_output(m, b, stage, some, s0, s1, own, a);
        }
        for (int64_t t = n - 1, left = k; t >= 0; t--) /* back to where they were */
            if (wanted[first + t] && --left < t)
                memcpy(own + t * C, own + left * C, (size_t)C * sizeof *own);
    }
}

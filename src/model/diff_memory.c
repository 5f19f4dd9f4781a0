/* Memory of the derivatives of a block: lanes, scratch arrays, and its weights in `real`. */
#include "activation/bitnet.h"
#include "math/row.h"
#include "math/strip.h"
#include "model/diff_ops.h"
#include "util/mem.h"
#include "util/num.h"
#include <omp.h>

enum { ROW_TILE = 64 }; /* tokens per tile in the row-wise kernels */

static int64_t numbers(const struct diff_program *p, const struct diff_set *set, int64_t tokens,
                       int64_t heads)
{
    int64_t width = heads;
    for (int i = 0; i < DIFF_BUFFERS; i++) width += set->has[i] ? p->width[i] : 0;
    return width * tokens;
}

int64_t diff_lane_bytes(const struct diff_program *p, const struct diff_set *set, int64_t tokens,
                        int64_t heads)
{
    return numbers(p, set, tokens, heads) * (int64_t)sizeof(real);
}

enum status diff_lane_init(struct diff_lane *l, const struct diff_program *p,
                           const struct diff_set *set, const struct diff_lane *rest, int64_t tokens,
                           int64_t heads, struct err *e)
{
    int64_t at = 0;
    memset(l, 0, sizeof *l);
    PASS(mem_alloc(&l->storage, numbers(p, set, tokens, heads), sizeof(real),
                   "activations of a block", e));
    for (int i = 0; i < DIFF_BUFFERS; i++)
        if (set->has[i]) {
            l->b[i] = l->storage + at;
            at += p->width[i] * tokens;
        } else if (rest) {
            l->b[i] = rest->b[i];
        }
    if (heads > 0) l->log_sum = l->storage + at;
    return OK;
}

void diff_lane_free(struct diff_lane *l)
{
    free(l->storage);
    memset(l, 0, sizeof *l);
}

static int64_t partial_width(const struct spec *s)
{
    const struct model_shape *n = &s->shape;
    const int64_t width = max64(n->hidden, n->heads * n->head_dim);
    return s->arch->mlp_sub_norm ? max64(width, n->intermediate) : width;
}

/* A tile of queries against a window sees the window of its first query and its other queries; with
 * strips, some keys before it. */
static int64_t keys_max(const struct spec *s, int64_t longest)
{
    int64_t most = 0;
    for (int64_t i = 0; i < s->shape.layers; i++) {
        int64_t window = spec_window(s, i);
        most = max64(most, window > 0 ? min64(longest, window + QUERY_TILE + STRIP_COLS) : longest);
    }
    return (most + STRIP_COLS - 1) / STRIP_COLS * STRIP_COLS;
}

static int64_t tiles_max(int64_t tokens, int64_t sequences)
{
    return tokens / ROW_TILE + sequences;
}

/* Factors on the left are activations, their adjoints, and logits; on the right weights and, in
 * their gradients, inputs. */
static struct mat_largest factors(const struct spec *s, int64_t tokens)
{
    struct diff_program p;
    struct mat_largest most = {s->shape.vocab * tokens, s->shape.vocab * s->shape.hidden};
    diff_program(s, &p);
    for (int i = 0; i < DIFF_BUFFERS; i++) most.left = max64(most.left, p.width[i] * tokens);
    for (int i = 0; i < p.n_linears; i++) {
        const struct linear *l = &p.linear[i];
        most.right = max64(most.right, l->cols * max64(l->rows, tokens));
    }
    return most;
}

int64_t diff_work_bytes(const struct spec *s, int64_t tokens, int64_t sequences, int64_t longest,
                        int64_t threads, enum products kind)
{
    int64_t width = partial_width(s), tiles = tiles_max(tokens, sequences);
    int64_t numbers = 2 * longest * s->n_ropes * s->rope[0].half + 2 * width + tiles * 2 * width +
                      threads * 4 * QUERY_TILE * keys_max(s, longest) +
                      threads * diff_attend_copies(s->shape.head_dim, longest);
    return numbers * (int64_t)sizeof(real) +
           tiles * (int64_t)(sizeof(struct tile) + 4 * sizeof(double)) +
           mat_work_bytes(kind, factors(s, tokens), threads);
}

/* cosine, sine (RoPEs, n, half) = those of the RoPE angles of the positions below n. */
static enum status angles_make(const struct model *m, int64_t n, real *cosine, real *sine,
                               struct err *e)
{
    struct hfconfig c = {.json = checkpoint_config(m->checkpoint), .name = m->file, .prefix = ""};
    struct REAL_NAME(rope) r;
    for (int k = 0; k < m->spec.n_ropes; k++) {
        PASS(REAL_NAME(rope_read)(&c, m->spec.shape.head_dim, k, &m->spec.arch->rope, &r, e));
        for (int64_t p = k * n; p < (k + 1) * n; p++)
            REAL_NAME(rope_angles)(&r, p - k * n, cosine + p * r.half, sine + p * r.half);
    }
    return OK;
}

enum status diff_work_init(struct diff_work *w, const struct model *m, int64_t tokens,
                           int64_t sequences, int64_t longest, enum products kind, struct err *e)
{
    enum status st = OK;
    const struct model_shape *n = &m->spec.shape;
    int64_t angles = longest * m->spec.n_ropes * m->spec.rope[0].half;
    memset(w, 0, sizeof *w);
    w->threads = omp_get_max_threads();
    w->longest = longest;
    w->keys = keys_max(&m->spec, longest);
    w->partial_width = partial_width(&m->spec);
    w->max_tiles = tiles_max(tokens, sequences);
    TRY(mem_alloc(&w->tiles, w->max_tiles, sizeof *w->tiles, "tiles", e));
    TRY(mem_alloc(&w->cosine, angles, sizeof(real), "RoPE table", e));
    TRY(mem_alloc(&w->sine, angles, sizeof(real), "RoPE table", e));
    TRY(mem_alloc(&w->ones, w->partial_width, sizeof(real), "ones", e));
    TRY(mem_zero(&w->zeros, w->partial_width, sizeof(real), "zeros", e));
    TRY(mem_alloc(&w->partial, w->max_tiles * 2 * w->partial_width, sizeof(real), "partial sums",
                  e));
    TRY(mem_alloc(&w->scalars, w->max_tiles * 4, sizeof(double), "partial sums", e));
    TRY(mem_alloc(&w->scores, (int64_t)w->threads * 4 * QUERY_TILE * w->keys, sizeof(real),
                  "attention scores", e));
    w->copies_size = diff_attend_copies(n->head_dim, longest);
    if (w->copies_size > 0)
        TRY(mem_alloc(&w->copies, w->threads * w->copies_size, sizeof(real), "keys and values", e));
    TRY(mat_work_open(&w->products, kind, factors(&m->spec, tokens), w->threads, e));
    for (int64_t i = 0; i < w->partial_width; i++) w->ones[i] = 1;
    TRY(angles_make(m, longest, w->cosine, w->sine, e));
done:
    if (st != OK) diff_work_free(w);
    return st;
}

void diff_work_free(struct diff_work *w)
{
    free(w->tiles);
    free(w->cosine);
    free(w->sine);
    free(w->partial);
    free(w->ones);
    free(w->zeros);
    free(w->scalars);
    free(w->scores);
    free(w->copies);
    mat_work_close(&w->products);
    memset(w, 0, sizeof *w);
}

void diff_work_cut(struct diff_work *w, const int64_t *first, int64_t n)
{
    w->first = first;
    w->n_sequences = n;
    w->tokens = first[n];
    w->n_tiles = 0;
    for (int64_t i = 0; i < n; i++)
        for (int64_t row = first[i]; row < first[i + 1]; row += ROW_TILE)
            w->tiles[w->n_tiles++] =
                (struct tile){.row = row,
                              .first = first[i],
                              .pos = row - first[i],
                              .n = first[i + 1] - row < ROW_TILE ? first[i + 1] - row : ROW_TILE};
}

real **diff_param(struct diff_params *p, const struct slot *t)
{
    if (t->kind == SLOT_WEIGHT) return &p->weight[t->index];
    if (t->kind == SLOT_BIAS) return &p->bias[t->index];
    return &p->extra[t->index];
}

const float *diff_loaded(const struct block *b, const struct slot *t)
{
    if (t->kind == SLOT_WEIGHT) return b->linear[t->index].w;
    if (t->kind == SLOT_BIAS) return b->linear[t->index].bias;
    return b->extra->p[t->index];
}

/* Fills w->params: with f64 copies of the loaded tensors, or in f32 with the tensors themselves;
 * of ternary linears with what those make of them. */
static enum status take(const struct model *m, struct diff_weights *w, const struct slot *slots,
                        int n, struct err *e)
{
    const bool ternary = m->straight_through && m->spec.linears != BITNET_NONE;
    const bool copy = sizeof(real) != sizeof(float);
    int64_t total = 0;
    for (int i = 0; i < n; i++) total += slot_elements(&slots[i]);
    if (copy) PASS(mem_alloc(&w->wide, total, sizeof(real), "weights of a block", e));
    if (ternary) PASS(mem_alloc(&w->ternary, total, sizeof(float), "ternary weights", e));
    total = 0;
    for (int i = 0; i < n; i++) {
        const int64_t size = slot_elements(&slots[i]);
        const float *from = diff_loaded(&w->block, &slots[i]);
        if (!from) continue;
        if (ternary && slots[i].kind == SLOT_WEIGHT) {
            bitnet_weights(from, size, w->ternary + total);
            from = w->ternary + total;
        }
        real *to = copy ? w->wide + total : (real *)(uintptr_t)from;
        for (int64_t k = 0; k < size && copy; k++) to[k] = (real)from[k];
        *diff_param(&w->params, &slots[i]) = to;
        total += size;
    }
    return OK;
}

enum status diff_weights_load(const struct model *m, int64_t layer,
                              const struct diff_params *direction, real step,
                              struct diff_weights *out, struct err *e)
{
    CLEANUP(diff_weights_free) struct diff_weights w = {0};
    struct diff_params along = *direction;
    struct slot slots[SLOTS_MAX];
    int n = slots_of(&m->spec, 0, slots);
    PASS(model_block_load(m, layer, &w.block, e));
    PASS(take(m, &w, slots, n, e));
    for (int i = 0; i < n; i++) {
        const real *d = *diff_param(&along, &slots[i]);
        if (d) row_axpy(*diff_param(&w.params, &slots[i]), step, d, slot_elements(&slots[i]));
    }
    *out = w;
    memset(&w, 0, sizeof w);
    return OK;
}

enum status diff_weights_borrow(const struct model *m, const struct block *block,
                                struct diff_weights *out, struct err *e)
{
    struct slot slots[SLOTS_MAX];
    const int n = slots_of(&m->spec, 0, slots);
    *out = (struct diff_weights){.block = *block};
    out->block.storage = NULL; /* a shallow copy, which owns nothing */
    return take(m, out, slots, n, e);
}

void diff_weights_free(struct diff_weights *w)
{
    model_block_free(&w->block);
    free(w->wide);
    free(w->ternary);
    memset(w, 0, sizeof *w);
}

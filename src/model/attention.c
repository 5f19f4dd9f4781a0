/* Causal self-attention of the forward pass. The softmax runs over the keys piece by piece (Milakov
 * and Gimelshein 2018; Dao et al. 2022), so that a thread needs one small tile of scores at any
 * length. */
#include "activation/kivi.h"
#include "math/kern_bf16.h"
#include "math/linalg.h"
#include "math/row.h"
#include "model/model_internal.h"
#include "util/num.h"
#include <math.h>
#include <omp.h>
#include <string.h>

int64_t qkv_width(const struct spec *s)
{
    return (s->shape.heads + 2 * s->shape.kv_heads) * s->shape.head_dim;
}

void qkv_columns(const struct spec *s, int64_t head, int64_t *q, int64_t *k, int64_t *v)
{
    const struct model_shape *m = &s->shape;
    int64_t D = m->head_dim, kv = head / (m->heads / m->kv_heads);
    *q = s->fused ? 3 * D * head : D * head;
    *k = s->fused ? *q + D : D * (m->heads + kv);
    *v = s->fused ? *k + D : D * (m->heads + m->kv_heads + kv);
}

void model_keys(const struct model *m, const struct acts *a, bool values, const float **x,
                int64_t *pitch, int64_t *stride)
{
    const struct spec *s = &m->spec;
    int64_t q, k, v;
    qkv_columns(s, 0, &q, &k, &v);
    *x = a->inner + (values ? v : k);
    *pitch = qkv_width(s);
    *stride = s->fused ? 3 * s->shape.head_dim : s->shape.head_dim;
}

/* q/k norm of `heads` heads, the first at column `column`, `stride` columns apart. */
static void norm_heads(const struct model *m, const struct tile *t, const struct acts *a,
                       int64_t column, int64_t stride, int64_t heads, const float *norm)
{
    const struct spec *s = &m->spec;
    int64_t width = qkv_width(s), D = s->shape.head_dim;
    float *x = a->inner + t->row * width + column;
    if (s->qk_norm == QK_PROJECTION) norm_rows(m, true, norm, NULL, heads * D, x, width, t->n, x);
    for (int64_t h = 0; s->qk_norm == QK_HEAD && h < heads; h++)
        norm_rows(m, true, norm, NULL, D, x + h * stride, width, t->n, x + h * stride);
}

/* RoPE of these heads. */
static void turn_heads(const struct model *m, const struct block *b, const struct tile *t,
                       const struct acts *a, int64_t column, int64_t stride, int64_t heads)
{
    const struct spec *s = &m->spec;
    int64_t width = qkv_width(s), half = s->rope[0].half;
    int64_t angles = (spec_rope(s, b->layer) * a->tokens + t->pos) * half;
    float *x = a->inner + t->row * width + column;
    if (s->flags[b->layer] & LAYER_NO_ROPE) return;
    const float *cosine = a->cosine + angles, *sine = a->sine + angles;
    if (m->rounded)
        kern_bf16_rope(x, width, heads, stride, cosine, sine, t->n, half, !s->arch->rounds_last);
    else
        row_rope(x, width, heads, stride, cosine, sine, t->n, half, false);
}

void attention_prepare(const struct model *m, const struct block *b, const struct tile *t,
                       struct acts *a)
{
    const struct spec *s = &m->spec;
    int64_t width = qkv_width(s), D = s->shape.head_dim, q, k, v;
    int64_t stride = s->fused ? 3 * D : D;
    if (b->grids) grids_outputs(m, b, t, a);
    if (s->clip > 0) {
        float *x = a->inner + t->row * width;
        row_clip(x, width, (float)s->clip, t->n, width);
        if (m->rounded) kern_bf16_bias(x, width, NULL, t->n, width);
    }
    qkv_columns(s, 0, &q, &k, &v);
    norm_heads(m, t, a, q, stride, s->shape.heads, b->extra->p[EXTRA_Q_NORM]);
    norm_heads(m, t, a, k, stride, s->shape.kv_heads, b->extra->p[EXTRA_K_NORM]);
    if (b->grids) grids_keys(m, b, t, false, a);
    turn_heads(m, b, t, a, q, stride, s->shape.heads);
    turn_heads(m, b, t, a, k, stride, s->shape.kv_heads);
    if (b->grids) grids_keys(m, b, t, true, a);
    if (b->grids) grids_values(m, b, t, a);
}

/* Keys at consecutive positions, stored in consecutive rows. */
struct run {
    int64_t pos, row, n; /* row: of the sequence */
};
enum { RUNS_MAX = 4 };

/* One head of a sequence; row 0 is the sequence's first token. */
struct head {
    const float *q, *k, *v; // (T, D) pitch `width`
    float *out;             // (T, D) pitch `ld`
    int64_t width, ld, D, window;
    bool rounded;  /* probabilities and results, to bf16 */
    int64_t valid; /* keys that are not padding; 0: all */
    int n_runs;    /* the last one holds the queries too */
    struct run runs[RUNS_MAX];
    const struct activation_grids *grids; /* of keys and values in a cache; NULL: none */
    float *cache;                         // (4, CACHE_TILE, D)
};

static void zero_rows(const struct head *h, int64_t row, int64_t n)
{
    for (int64_t i = row; i < row + n; i++)
        memset(h->out + i * h->ld, 0, (size_t)h->D * sizeof(float));
}

/* Queries at positions [pos, pos + n), whose first is row `row`, and what their softmax has summed
 * so far. */
struct queries {
    int64_t pos, row, n;
    float *scores; // (QUERY_TILE, KEY_TILE)
    bool begun;
    float m[QUERY_TILE], l[QUERY_TILE];
};

/* How many of the n positions from `start` on are older than `end`. */
static int64_t older(int64_t end, int64_t start, int64_t n)
{
    return max64(0, min64(end - start, n));
}

/* Softens x->scores (queries, n) of keys at n positions from `start` on, and scales what has been
 * summed so far to match. */
static void soften(const struct head *h, struct queries *x, int64_t start, int64_t n)
{
    const float scale = 1.0f / sqrtf((float)h->D);
    for (int64_t i = 0; i < x->n; i++) {
        const int64_t last = x->pos + i;
        const int64_t lo = h->window > 0 ? older(last - h->window + 1, start, n) : 0;
        const int64_t hi = max64(lo, older(last + 1, start, n));
        const float f = kern_softmax_step(x->scores + i * n, n, lo, hi, scale, &x->m[i], &x->l[i]);
        if (x->begun) kern_scale(h->out + (x->row + i) * h->ld, f, h->D);
    }
}

/* Adds the keys at positions [start, end) of one run. */
static void attend_run(const struct head *h, struct queries *x, const struct run *run,
                       int64_t start, int64_t end)
{
    float *out = h->out + x->row * h->ld, *scores = x->scores;
    for (int64_t k0 = start; k0 < end; k0 += KEY_TILE) {
        int64_t keys = min64(end - k0, KEY_TILE);
        int64_t row = run->row + k0 - run->pos;
        mat_gemm(MAT_NT, scores, keys, h->q + x->row * h->width, h->width, h->k + row * h->width,
                 h->width, x->n, keys, h->D, 0);
        soften(h, x, k0, keys);
        if (h->rounded) kern_bf16_round(scores, scores, x->n * keys);
        mat_gemm(MAT_NN, out, h->ld, scores, keys, h->v + row * h->width, h->width, x->n, h->D,
                 keys, x->begun ? 1.0f : 0.0f);
        x->begun = true;
    }
}

/* --- a cache whose older part is quantized (kivi.h) --- */

/* Keys and values at positions [start, start + n), as they are and quantized. */
struct cached {
    int64_t start, n;
    float *k, *v, *old_k, *old_v; // (n, D)
};

static void fill_cached(const struct head *h, struct cached *c)
{
    const size_t bytes = (size_t)h->D * sizeof(float);
    c->k = h->cache;
    c->v = c->k + CACHE_TILE * h->D;
    c->old_k = c->v + CACHE_TILE * h->D;
    c->old_v = c->old_k + CACHE_TILE * h->D;
    for (int r = 0; r < h->n_runs; r++) {
        const struct run *run = &h->runs[r];
        const int64_t end = min64(c->start + c->n, run->pos + run->n);
        for (int64_t p = max64(c->start, run->pos); p < end; p++) {
            const int64_t at = (run->row + p - run->pos) * h->width;
            memcpy(c->k + (p - c->start) * h->D, h->k + at, bytes);
            memcpy(c->v + (p - c->start) * h->D, h->v + at, bytes);
        }
    }
    if (h->grids->keys.residual > 0) kivi_keys(&h->grids->keys, c->k, c->n, h->D, c->old_k);
    if (h->grids->values.residual > 0) kivi_values(&h->grids->values, c->v, c->n, h->D, c->old_v);
}

/* x->scores (queries, n): each query's own mixture of products with both keys. */
static void score_cached(const struct head *h, struct queries *x, const struct cached *c)
{
    const float *q = h->q + x->row * h->width;
    const struct activation_grid *g = &h->grids->keys;
    float *scores = x->scores, *old = scores + QUERY_TILE * CACHE_TILE;
    mat_gemm(MAT_NT, scores, c->n, q, h->width, c->k, h->D, x->n, c->n, h->D, 0);
    if (older(kivi_keys_old(g, x->pos + x->n - 1), c->start, c->n) == 0) return;
    mat_gemm(MAT_NT, old, c->n, q, h->width, c->old_k, h->D, x->n, c->n, h->D, 0);
    for (int64_t i = 0; i < x->n; i++) {
        const int64_t n = older(kivi_keys_old(g, x->pos + i), c->start, c->n);
        memcpy(scores + i * c->n, old + i * c->n, (size_t)n * sizeof *old);
    }
}

/* out += probabilities, which are in x->scores, times both values. */
static void sum_cached(const struct head *h, struct queries *x, const struct cached *c)
{
    float *out = h->out + x->row * h->ld, *scores = x->scores;
    float *old = scores + QUERY_TILE * CACHE_TILE;
    int64_t most = 0;
    for (int64_t i = 0; i < x->n; i++) {
        const int64_t n = older(kivi_values_old(&h->grids->values, x->pos + i), c->start, c->n);
        memcpy(old + i * c->n, scores + i * c->n, (size_t)n * sizeof *old);
        memset(old + i * c->n + n, 0, (size_t)(c->n - n) * sizeof *old);
        memset(scores + i * c->n, 0, (size_t)n * sizeof *old);
        most = max64(most, n);
    }
    mat_gemm(MAT_NN, out, h->ld, scores, c->n, c->v, h->D, x->n, h->D, c->n, x->begun ? 1 : 0);
    if (most) mat_gemm(MAT_NN, out, h->ld, old, c->n, c->old_v, h->D, x->n, h->D, c->n, 1);
}

/* Adds the keys at positions [start, end). */
static void attend_cached(const struct head *h, struct queries *x, int64_t start, int64_t end)
{
    const int64_t group = h->grids->keys.residual > 0 ? h->grids->keys.group_size : 1;
    const int64_t size = CACHE_TILE / group * group;
    for (int64_t k0 = start / size * size; k0 < end; k0 += size) {
        struct cached c = {.start = k0, .n = min64(size, end - k0)};
        fill_cached(h, &c);
        score_cached(h, x, &c);
        soften(h, x, k0, c.n);
        sum_cached(h, x, &c);
        x->begun = true;
    }
}

/* Attention of the queries over all keys that they see. */
static void attend(const struct head *h, struct queries *x)
{
    int64_t start = h->window > 0 && x->pos >= h->window ? x->pos - h->window + 1 : 0;
    int64_t end = h->valid > 0 && h->valid < x->pos + x->n ? h->valid : x->pos + x->n;
    if (start >= end) zero_rows(h, x->row, x->n); /* the window holds padding only */
    x->begun = false;
    for (int64_t i = 0; i < x->n; i++) x->m[i] = -INFINITY, x->l[i] = 0;
    const int64_t last = x->pos + x->n - 1;
    const bool cached = h->grids && (kivi_keys_old(&h->grids->keys, last) > 0 ||
                                     kivi_values_old(&h->grids->values, last) > 0);
    if (cached && start < end) attend_cached(h, x, start, end);
    for (int k = 0; k < h->n_runs && !cached; k++) {
        const struct run *run = &h->runs[k];
        attend_run(h, x, run, max64(start, run->pos), min64(end, run->pos + run->n));
    }
    float *out = h->out + x->row * h->ld;
    for (int64_t i = 0; i < x->n; i++)
        if (x->l[i] > 0) kern_scale(out + i * h->ld, 1.0f / x->l[i], h->D);
    if (h->rounded) kern_bf16_bias(out, h->ld, NULL, x->n, h->D);
}

/* The keys that the tokens of a tile may see: those of its segment and of the segments before. */
static void set_runs(struct head *h, const struct tile *t)
{
    const int64_t end = t->pos + t->n;
    h->n_runs = 1;
    h->runs[0] = (struct run){.n = end};
    if (!t->segments) return;
    h->n_runs = 0;
    for (int64_t b = t->segment, next = end; b >= 0; b = t->segments[b].parent) {
        const struct segment *x = &t->segments[b];
        h->n_runs++;
        memmove(h->runs + 1, h->runs, (RUNS_MAX - 1) * sizeof *h->runs);
        h->runs[0] = (struct run){.pos = x->pos, .row = x->row, .n = next - x->pos};
        next = x->pos;
    }
}

static void attend_tile(const struct model *m, const struct block *b, struct acts *a,
                        const struct tile *t, int64_t head, bool split)
{
    const struct spec *s = &m->spec;
    int64_t q, k, v, width = qkv_width(s), ld = s->shape.heads * s->shape.head_dim;
    const float *rows = a->inner + t->first * width;
    qkv_columns(s, head, &q, &k, &v);
    struct head h = {.q = rows + q,
                     .k = rows + k,
                     .v = rows + v,
                     .out = a->in + t->first * ld + head * s->shape.head_dim,
                     .width = width,
                     .ld = ld,
                     .D = s->shape.head_dim,
                     .rounded = m->rounded,
                     .valid = t->valid,
                     .window = spec_window(s, b->layer),
                     .grids = b->grids};
    struct queries x = {.scores =
                            a->scores + omp_get_thread_num() * scores_floats(h.D, a->in_width)};
    h.cache = x.scores + QUERY_TILE * KEY_TILE;
    set_runs(&h, t);
    for (int64_t i = 0; i < t->n; i += QUERY_TILE) {
        x.pos = t->pos + i;
        x.row = t->row - t->first + i;
        x.n = min64(t->n - i, QUERY_TILE);
        attend(&h, &x);
        for (int64_t r = t->row + i; split && r < t->row + i + x.n; r++)
            acts_split(a, r * ld + head * h.D, h.D);
    }
}

void attention_forward(const struct model *m, const struct block *b, struct acts *a, bool split)
{
    int64_t heads = m->spec.shape.heads, items = a->n_tiles * heads;
#pragma omp parallel for schedule(dynamic, 1) num_threads(a->threads)
    for (int64_t i = 0; i < items; i++)
        attend_tile(m, b, a, &a->tiles[i / heads], i % heads, split);
}

/* Derivatives of the norms of rows and of heads, of clipping and of RoPE. */
#include "math/row.h"
#include "model/diff_ops.h"
#include <string.h>

/* Where a norm reads and writes: in each row `heads` runs of n values, `stride` apart. */
struct place {
    enum diff_buffer x, y;
    int64_t column, stride, heads;
};

struct diff_norm diff_norm_of(const struct spec *s, const struct diff_work *w, int64_t n, bool rms,
                              const real *const weight_bias[2], const real *const tangent[2])
{
    return (struct diff_norm){.n = n,
                              .eps = (real)s->eps,
                              .centred = !rms && s->arch->norm != NORM_RMS,
                              .w = weight_bias[0] ? weight_bias[0] : w->ones,
                              .b = weight_bias[1] ? weight_bias[1] : w->zeros,
                              .dw = tangent && tangent[0] ? tangent[0] : w->zeros,
                              .db = tangent && tangent[1] ? tangent[1] : w->zeros};
}

void diff_partial_add(const struct diff_work *w, int64_t n, real *gw, real *gb)
{
    real *const to[2] = {gw, gb};
    for (int k = 0; k < 2; k++)
        for (int64_t i = 0; i < n && to[k]; i++) {
            double sum = 0;
            for (int64_t t = 0; t < w->n_tiles; t++)
                sum += (double)w->partial[(2 * t + k) * w->partial_width + i];
            to[k][i] += (real)sum;
        }
}

/* The first value of a tile in a lane's buffer, for one head. */
static real *start(const struct diff_pass *p, const struct diff_lane *l, enum diff_buffer b,
                   const struct tile *t, const struct place *at, int64_t head)
{
    return l->b[b] + t->row * p->program->width[b] + at->column + head * at->stride;
}

static void place_forward(const struct diff_pass *p, const struct diff_norm *f,
                          const struct place *at, const struct tile *t, bool tangent)
{
    int64_t ldx = p->program->width[at->x], ldy = p->program->width[at->y];
    for (int64_t h = 0; h < at->heads; h++) {
        const real *x = start(p, p->value, at->x, t, at, h);
        if (tangent)
            diff_norm_tangent(f, start(p, p->tangent, at->y, t, at, h), ldy, x,
                              start(p, p->tangent, at->x, t, at, h), ldx, t->n);
        else
            diff_norm(f, start(p, p->value, at->y, t, at, h), ldy, x, ldx, t->n);
    }
}

/* Adjoints, or their tangents, for all tiles; adds those of the parameters to gw and gb. */
static void place_backward(const struct diff_pass *p, const struct diff_norm *f,
                           const struct place *at, bool tangent, bool add, real *gw, real *gb)
{
    struct diff_work *w = p->work;
    int64_t ldx = p->program->width[at->x], ldy = p->program->width[at->y];
#pragma omp parallel for schedule(static) num_threads(w->threads)
    for (int64_t i = 0; i < w->n_tiles; i++) {
        const struct tile *t = &w->tiles[i];
        real *sw = w->partial + 2 * i * w->partial_width, *sb = sw + w->partial_width;
        memset(sw, 0, (size_t)(2 * w->partial_width) * sizeof *sw);
        for (int64_t h = 0; h < at->heads; h++) {
            const real *x = start(p, p->value, at->x, t, at, h);
            const real *gy = start(p, p->adjoint, at->y, t, at, h);
            if (tangent)
                diff_norm_adjoint_tangent(f, start(p, p->adjoint_tangent, at->x, t, at, h), x,
                                          start(p, p->tangent, at->x, t, at, h), ldx, gy,
                                          start(p, p->adjoint_tangent, at->y, t, at, h), ldy, t->n,
                                          add, sw, sb);
            else
                diff_norm_adjoint(f, start(p, p->adjoint, at->x, t, at, h), x, ldx, gy, ldy, t->n,
                                  add, sw, sb);
        }
    }
    diff_partial_add(w, f->n, gw, gb);
}

/* An entry of a set of parameters; NULL without the set. */
static real *extra(const struct diff_params *g, int index)
{
    return g ? g->extra[index] : NULL;
}

void diff_rows(enum diff_form form, const struct diff_op *op, const struct diff_pass *p)
{
    const struct diff_work *w = p->work;
    const real *weights[2] = {p->w->extra[op->arg], p->w->extra[op->arg + 1]};
    const real *moving[2] = {extra(p->v, op->arg), extra(p->v, op->arg + 1)};
    const struct diff_norm f =
        diff_norm_of(p->spec, w, p->program->width[op->y], false, weights, moving);
    const struct place at = {.x = op->a, .y = op->y, .heads = 1};
    bool tangent = diff_is_tangent(form);
    if (form >= DIFF_ADJOINT) {
        place_backward(p, &f, &at, tangent, op->add_a, extra(p->g, op->arg),
                       extra(p->g, op->arg + 1));
        return;
    }
#pragma omp parallel for schedule(static) num_threads(w->threads)
    for (int64_t i = 0; i < w->n_tiles; i++) place_forward(p, &f, &at, &w->tiles[i], tangent);
}

/* --- between the projections and the attention: clipping, q/k norm, RoPE --- */

/* The queries (which = 0) or the keys (1) of all heads, and their norm. */
struct part {
    struct place at;
    struct diff_norm norm;
    int extra;     /* EXTRA_* of the norm's weight */
    int64_t heads; /* to rotate */
};

static struct part part_of(const struct diff_pass *p, int which)
{
    const struct spec *s = p->spec;
    int64_t D = s->shape.head_dim, q, k, v;
    struct part o = {.extra = which ? EXTRA_K_NORM : EXTRA_Q_NORM,
                     .heads = which ? s->shape.kv_heads : s->shape.heads};
    bool whole = s->qk_norm == QK_PROJECTION;
    const real *w[2] = {p->w->extra[o.extra], NULL}, *d[2] = {extra(p->v, o.extra), NULL};
    qkv_columns(s, 0, &q, &k, &v);
    o.at = (struct place){.x = DIFF_RAW,
                          .y = DIFF_QKV,
                          .column = which ? k : q,
                          .stride = s->fused ? 3 * D : D,
                          .heads = whole ? 1 : o.heads};
    o.norm = diff_norm_of(s, p->work, whole ? o.heads * D : D, true, w, d);
    return o;
}

static void rotate(const struct diff_pass *p, const struct part *o, const struct tile *t,
                   const struct diff_lane *l, bool backward)
{
    int64_t W = p->program->width[DIFF_QKV], half = p->spec->rope[0].half;
    int64_t angles = (spec_rope(p->spec, p->layer) * p->work->longest + t->pos) * half;
    if (p->spec->flags[p->layer] & LAYER_NO_ROPE) return;
    row_rope(l->b[DIFF_QKV] + t->row * W + o->at.column, W, o->heads, o->at.stride,
             p->work->cosine + angles, p->work->sine + angles, t->n, half, backward);
}

static void prepare_forward(const struct diff_op *op, const struct diff_pass *p, bool tangent)
{
    const struct diff_work *w = p->work;
    const struct diff_lane *l = tangent ? p->tangent : p->value;
    const struct part part[2] = {part_of(p, 0), part_of(p, 1)};
    const real clip = (real)p->spec->clip;
    int64_t W = p->program->width[DIFF_QKV];
#pragma omp parallel for schedule(static) num_threads(w->threads)
    for (int64_t i = 0; i < w->n_tiles; i++) {
        const struct tile *t = &w->tiles[i];
        int64_t from = t->row * W;
        real *raw = l->b[op->a] + from;
        if (clip > 0 && tangent) row_clip_mask(raw, p->value->b[DIFF_RAW] + from, W, clip, t->n, W);
        if (clip > 0 && !tangent) row_clip(raw, W, clip, t->n, W);
        if (op->a != op->y) memcpy(l->b[op->y] + from, raw, (size_t)(t->n * W) * sizeof *raw);
        for (int k = 0; k < 2; k++) {
            if (p->spec->qk_norm != QK_NONE)
                place_forward(p, &part[k].norm, &part[k].at, t, tangent);
            rotate(p, &part[k], t, l, false);
        }
    }
}

static void prepare_backward(const struct diff_op *op, const struct diff_pass *p, bool tangent)
{
    const struct diff_work *w = p->work;
    const struct diff_lane *l = tangent ? p->adjoint_tangent : p->adjoint;
    const struct part part[2] = {part_of(p, 0), part_of(p, 1)};
    const real clip = (real)p->spec->clip;
    int64_t W = p->program->width[DIFF_QKV];
#pragma omp parallel for schedule(static) num_threads(w->threads)
    for (int64_t i = 0; i < w->n_tiles; i++) {
        const struct tile *t = &w->tiles[i];
        for (int k = 0; k < 2; k++) rotate(p, &part[k], t, l, true);
        if (op->a != op->y)
            memcpy(l->b[op->a] + t->row * W, l->b[op->y] + t->row * W,
                   (size_t)(t->n * W) * sizeof(real));
    }
    for (int k = 0; k < 2 && p->spec->qk_norm != QK_NONE; k++)
        place_backward(p, &part[k].norm, &part[k].at, tangent, false, extra(p->g, part[k].extra),
                       NULL);
    if (clip > 0)
#pragma omp parallel for schedule(static) num_threads(w->threads)
        for (int64_t i = 0; i < w->n_tiles; i++)
            row_clip_mask(l->b[DIFF_RAW] + w->tiles[i].row * W,
                          p->value->b[DIFF_RAW] + w->tiles[i].row * W, W, clip, w->tiles[i].n, W);
}

void diff_prepare(enum diff_form form, const struct diff_op *op, const struct diff_pass *p)
{
    (form < DIFF_ADJOINT ? prepare_forward : prepare_backward)(op, p, diff_is_tangent(form));
}

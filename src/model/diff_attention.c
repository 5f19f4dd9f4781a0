/* Causal attention and its derivatives, tiled over the queries: a tile holds the scores of
 * QUERY_TILE queries against the keys that they may see. The adjoint of a key or value is a sum
 * over many queries, so a thread takes one key/value head of one sequence with all its queries. */
#include "math/diff.h"
#include "math/matmul.h"
#include "model/diff_ops.h"
#include <math.h>
#include <omp.h>
#include <string.h>

/* Scratch arrays of a tile: probabilities, their tangents, adjoints, tangents of the adjoints. */
enum { P, DP, G, DG, PLANES };

/* One query head, and its key/value head, of one sequence: rows from the sequence's start. */
struct side {
    real *q, *k, *v; // (T, D) pitch W
    real *o;         // (T, D) pitch NH*HD
};
struct head {
    int64_t T, D, W, ldo, window, heads;
    real scale;
    struct side value, tangent, adjoint, adjoint_tangent;
    real *log_sum; // (T) pitch heads
    real *plane[PLANES];
};
/* Queries [q0, q0 + n) against keys [k0, k0 + keys). */
struct span {
    int64_t q0, n, k0, keys;
};

static struct span span_of(const struct head *h, int64_t q0)
{
    int64_t n = h->T - q0 < QUERY_TILE ? h->T - q0 : QUERY_TILE;
    int64_t k0 = h->window > 0 && q0 >= h->window ? q0 - h->window + 1 : 0;
    return (struct span){.q0 = q0, .n = n, .k0 = k0, .keys = q0 + n - k0};
}

/* The keys, relative to the span's first, that the span's i-th query sees. */
static void visible(const struct head *h, const struct span *s, int64_t i, int64_t *lo, int64_t *hi)
{
    int64_t last = s->q0 + i, first = h->window > 0 ? last - h->window + 1 : 0;
    *lo = first > s->k0 ? first - s->k0 : 0;
    *hi = last + 1 - s->k0;
}

/* y (n, keys) = beta y + rows of the queries in a times rows of the keys in bᵀ. */
static void scores(const struct head *h, const struct span *s, real *y, const real *a, int64_t lda,
                   const real *b, int64_t ldb, real beta)
{
    mat_gemm(MAT_NT, y, s->keys, a + s->q0 * lda, lda, b + s->k0 * ldb, ldb, s->n, s->keys, h->D,
             beta);
}

/* Rows of the queries in y = beta y + p (n, keys) times rows of the keys in b. */
static void to_queries(const struct head *h, const struct span *s, real *y, int64_t ldy,
                       const real *p, const real *b, real beta)
{
    mat_gemm(MAT_NN, y + s->q0 * ldy, ldy, p, s->keys, b + s->k0 * h->W, h->W, s->n, h->D, s->keys,
             beta);
}

/* Rows of the keys in y += pᵀ times rows of the queries in a. */
static void to_keys(const struct head *h, const struct span *s, real *y, const real *p,
                    const real *a, int64_t lda)
{
    mat_gemm(MAT_TN, y + s->k0 * h->W, h->W, p, s->keys, a + s->q0 * lda, lda, s->keys, h->D, s->n,
             1);
}

static void value_tile(const struct head *h, const struct span *s)
{
    real *p = h->plane[P];
    scores(h, s, p, h->value.q, h->W, h->value.k, h->W, 0);
    for (int64_t i = 0; i < s->n; i++) {
        int64_t lo, hi;
        visible(h, s, i, &lo, &hi);
        h->log_sum[(s->q0 + i) * h->heads] =
            diff_softmax(p + i * s->keys, s->keys, lo, hi, h->scale);
    }
    to_queries(h, s, h->value.o, h->ldo, p, h->value.v, 0);
}

/* Scores and their tangents, before the softmax. */
static void tangent_scores(const struct head *h, const struct span *s)
{
    scores(h, s, h->plane[P], h->value.q, h->W, h->value.k, h->W, 0);
    scores(h, s, h->plane[DP], h->tangent.q, h->W, h->value.k, h->W, 0);
    scores(h, s, h->plane[DP], h->value.q, h->W, h->tangent.k, h->W, 1);
}

/* Replaces the scores by probabilities p, and their tangents or the adjoints of p in plane `which`
 * by the tangents of p or the adjoints of the scores: the same map (diff_softmax_tangent). */
static void softmax_tangents(const struct head *h, const struct span *s, int which)
{
    for (int64_t i = 0; i < s->n; i++) {
        int64_t lo, hi, at = i * s->keys;
        visible(h, s, i, &lo, &hi);
        diff_softmax_tangent(h->plane[P] + at, h->plane[which] + at, s->keys, lo, hi, h->scale,
                             h->log_sum[(s->q0 + i) * h->heads]);
    }
}

static void tangent_tile(const struct head *h, const struct span *s)
{
    tangent_scores(h, s);
    softmax_tangents(h, s, DP);
    to_queries(h, s, h->tangent.o, h->ldo, h->plane[DP], h->value.v, 0);
    to_queries(h, s, h->tangent.o, h->ldo, h->plane[P], h->tangent.v, 1);
}

static void adjoint_tile(const struct head *h, const struct span *s)
{
    const struct side *x = &h->value, *g = &h->adjoint;
    scores(h, s, h->plane[P], x->q, h->W, x->k, h->W, 0);
    scores(h, s, h->plane[G], g->o, h->ldo, x->v, h->W, 0);
    softmax_tangents(h, s, G);
    to_keys(h, s, g->v, h->plane[P], g->o, h->ldo);
    to_queries(h, s, g->q, h->W, h->plane[G], x->k, 0);
    to_keys(h, s, g->k, h->plane[G], x->q, h->W);
}

static void adjoint_tangent_tile(const struct head *h, const struct span *s)
{
    const struct side *x = &h->value, *dx = &h->tangent, *g = &h->adjoint,
                      *dg = &h->adjoint_tangent;
    tangent_scores(h, s);
    scores(h, s, h->plane[G], g->o, h->ldo, x->v, h->W, 0);
    scores(h, s, h->plane[DG], dg->o, h->ldo, x->v, h->W, 0);
    scores(h, s, h->plane[DG], g->o, h->ldo, dx->v, h->W, 1);
    for (int64_t i = 0; i < s->n; i++) {
        int64_t lo, hi, at = i * s->keys;
        visible(h, s, i, &lo, &hi);
        diff_softmax_adjoint_tangent(h->plane[P] + at, h->plane[DP] + at, h->plane[G] + at,
                                     h->plane[DG] + at, s->keys, lo, hi, h->scale,
                                     h->log_sum[(s->q0 + i) * h->heads]);
    }
    to_keys(h, s, dg->v, h->plane[DP], g->o, h->ldo);
    to_keys(h, s, dg->v, h->plane[P], dg->o, h->ldo);
    to_queries(h, s, dg->q, h->W, h->plane[DG], x->k, 0);
    to_queries(h, s, dg->q, h->W, h->plane[G], dx->k, 1);
    to_keys(h, s, dg->k, h->plane[DG], x->q, h->W);
    to_keys(h, s, dg->k, h->plane[G], dx->q, h->W);
}

static struct side side_of(const struct diff_pass *p, const struct diff_lane *l, int64_t row,
                           int64_t head)
{
    struct side s = {0};
    int64_t q, k, v, W = p->program->width[DIFF_QKV], ldo = p->program->width[DIFF_ATT];
    if (!l) return s;
    qkv_columns(p->spec, head, &q, &k, &v);
    real *rows = l->b[DIFF_QKV] + row * W;
    s.q = rows + q, s.k = rows + k, s.v = rows + v;
    s.o = l->b[DIFF_ATT] + row * ldo + head * p->spec->shape.head_dim;
    return s;
}

static struct head head_of(const struct diff_pass *p, int64_t sequence, int64_t head)
{
    const struct model_shape *m = &p->spec->shape;
    struct diff_work *w = p->work;
    int64_t row = w->first[sequence];
    struct head h = {.T = w->first[sequence + 1] - row,
                     .D = m->head_dim,
                     .W = p->program->width[DIFF_QKV],
                     .ldo = p->program->width[DIFF_ATT],
                     .window = spec_window(p->spec, p->layer),
                     .heads = m->heads,
                     .scale = 1 / (real)sqrt((double)m->head_dim),
                     .log_sum = p->value->log_sum + row * m->heads + head};
    h.value = side_of(p, p->value, row, head);
    h.tangent = side_of(p, p->tangent, row, head);
    h.adjoint = side_of(p, p->adjoint, row, head);
    h.adjoint_tangent = side_of(p, p->adjoint_tangent, row, head);
    real *planes = w->scores + (int64_t)omp_get_thread_num() * PLANES * QUERY_TILE * w->keys;
    for (int i = 0; i < PLANES; i++) h.plane[i] = planes + i * QUERY_TILE * w->keys;
    return h;
}

static void zero_rows(real *x, int64_t ld, int64_t T, int64_t n)
{
    for (int64_t t = 0; t < T; t++) memset(x + t * ld, 0, (size_t)n * sizeof *x);
}

/* A thread takes one of `groups` groups of heads of one sequence: forwards a single head, backwards
 * a key/value head with all its query heads, whose adjoints (or tangents of them) it zeroes first.
 */
void diff_attend(enum diff_form form, const struct diff_op *op, const struct diff_pass *p)
{
    static void (*const tiles[DIFF_FORMS])(const struct head *h, const struct span *s) = {
        value_tile, tangent_tile, adjoint_tile, adjoint_tangent_tile};
    const struct model_shape *m = &p->spec->shape;
    bool backward = form >= DIFF_ADJOINT;
    int64_t groups = backward ? m->kv_heads : m->heads, group = m->heads / groups;
    int64_t items = p->work->n_sequences * groups;
    (void)op;
#pragma omp parallel for schedule(dynamic, 1) num_threads(p->work->threads)
    for (int64_t i = 0; i < items; i++)
        for (int64_t j = 0; j < group; j++) {
            struct head h = head_of(p, i / groups, i % groups * group + j);
            const struct side *out = form == DIFF_ADJOINT ? &h.adjoint : &h.adjoint_tangent;
            if (backward && j == 0) zero_rows(out->k, h.W, h.T, h.D);
            if (backward && j == 0) zero_rows(out->v, h.W, h.T, h.D);
            for (int64_t q0 = 0; q0 < h.T; q0 += QUERY_TILE) {
                struct span s = span_of(&h, q0);
                tiles[form](&h, &s);
            }
        }
}

/* Causal attention and its derivatives, tiled over the queries: a tile holds the scores of
 * QUERY_TILE queries against the keys that they may see. The adjoint of a key or value is a sum
 * over many queries, so a thread takes one key/value head of one sequence with all its queries. */
#include "math/diff.h"
#include "math/matmul.h"
#include "math/panels.h"
#include "math/strip.h"
#include "model/diff_ops.h"
#include "util/num.h"
#include <math.h>
#include <omp.h>
#include <string.h>

/* Scratch arrays of a tile: probabilities, their tangents, adjoints, tangents of the adjoints. */
enum { P, DP, G, DG, PLANES };
_Static_assert((int)QUERY_TILE == STRIP_COLS, "a tile's own keys are not a strip");

/* One query head, and its key/value head, of one sequence: rows from the sequence's start. */
struct side {
    real *q, *k, *v; // (T, D) pitch W
    real *o;         // (T, D) pitch NH*HD
};
/* Keys or values, or tangents of them, and their copies for products by strips. */
struct keys {
    const real *x; // (T, D) pitch W; NULL: not in this form
    real *rows;    // (T, D)
    real *turned;  // (T / STRIP_COLS, D, STRIP_COLS)
};
enum { KEYS, VALUES, KEY_TANGENTS, VALUE_TANGENTS, OPERANDS };
struct head {
    int64_t T, D, W, ldo, window, heads;
    real scale;
    struct side value, tangent, adjoint, adjoint_tangent;
    struct keys operand[OPERANDS];
    bool strips;
    real *log_sum; // (T) pitch heads
    real *plane[PLANES];
};
/* Queries [q0, q0 + n) against keys [k0, k0 + keys); rows of a plane are `pitch` apart. */
struct span {
    int64_t q0, n, k0, keys, pitch;
};

static int64_t whole_strips(int64_t n)
{
    return (n + STRIP_COLS - 1) / STRIP_COLS * STRIP_COLS;
}

/* With strips, k0 begins a strip. */
static struct span span_of(const struct head *h, int64_t q0)
{
    int64_t n = h->T - q0 < QUERY_TILE ? h->T - q0 : QUERY_TILE;
    int64_t k0 = h->window > 0 && q0 >= h->window ? q0 - h->window + 1 : 0;
    if (h->strips) k0 = k0 / STRIP_COLS * STRIP_COLS;
    struct span s = {.q0 = q0, .n = n, .k0 = k0, .keys = q0 + n - k0};
    s.pitch = h->strips ? whole_strips(s.keys) : s.keys;
    return s;
}

/* The keys, relative to the span's first, that the span's i-th query sees. */
static void visible(const struct head *h, const struct span *s, int64_t i, int64_t *lo, int64_t *hi)
{
    int64_t last = s->q0 + i, first = h->window > 0 ? last - h->window + 1 : 0;
    *lo = first > s->k0 ? first - s->k0 : 0;
    *hi = last + 1 - s->k0;
}

/* --- products --- */

#ifndef QTRAJ_REAL_F64
/* Strips read two factors where they are, and leave out what no query sees; the bits are the same,
 * since those are zeros. */
int64_t diff_attend_copies(int64_t head_dim, int64_t longest)
{
    if (!strip_fast() || head_dim % STRIP_GRAIN != 0) return 0;
    return 2 * OPERANDS * whole_strips(longest) * head_dim;
}

enum { ROWS = 1, TURNED = 2 };

/* Makes the copies in the set. */
static void copy_keys(const struct head *h, const struct keys *of, int set)
{
    for (int64_t t = 0; t < (set & TURNED ? h->T : 0); t += STRIP_COLS)
        panels_copy(of->turned + t * h->D, STRIP_COLS,
                    &(struct panels_factor){of->x + t * h->W, h->W, false},
                    min64(h->T - t, STRIP_COLS), h->D);
    for (int64_t t = 0; t < (set & ROWS ? h->T : 0); t++)
        memcpy(of->rows + t * h->D, of->x + t * h->W, (size_t)h->D * sizeof *of->rows);
}

/* Not all scores that no query sees: a tile's own keys from a query on, STRIP_GRAIN at a time. */
static void strip_scores(const struct head *h, const struct span *s, real *y, const real *a,
                         int64_t lda, const struct keys *of, bool add)
{
    struct strip_factor f = {.a = a + s->q0 * lda,
                             .a_row = lda,
                             .a_col = 1,
                             .k = h->D,
                             .ldy = s->pitch,
                             .ldb = STRIP_COLS,
                             .cols = STRIP_COLS,
                             .add = add};
    const int64_t own = s->q0 - s->k0;
    for (int64_t c = 0; c < own; c += STRIP_COLS)
        strip_products(&(struct strip){y + c, of->turned + (s->k0 + c) * h->D, s->n}, 1, &f, f.k);
    f.cols = STRIP_GRAIN;
    for (int64_t c = 0; c < s->n; c += STRIP_GRAIN, f.a += STRIP_GRAIN * lda)
        strip_products(
            &(struct strip){y + c * s->pitch + own + c, of->turned + s->q0 * h->D + c, s->n - c}, 1,
            &f, f.k);
}

static void strip_queries(const struct head *h, const struct span *s, real *y, int64_t ldy,
                          const real *p, const struct keys *of, bool add)
{
    struct strip_factor f = {.a = p,
                             .a_row = s->pitch,
                             .a_col = 1,
                             .k = s->keys,
                             .ldy = ldy,
                             .ldb = h->D,
                             .lower = true,
                             .shift = s->q0 - s->k0,
                             .add = add};
    for (int64_t c = 0; c < h->D; c += STRIP_COLS) {
        f.cols = min64(h->D - c, STRIP_COLS);
        strip_products(&(struct strip){y + s->q0 * ldy + c, of->rows + s->k0 * h->D + c, s->n}, 1,
                       &f, STRIP_DEPTH);
    }
}

/* Keys among the queries' own positions are seen by those from there on. */
static void strip_keys(const struct head *h, const struct span *s, real *y, const real *p,
                       const real *a, int64_t lda)
{
    const int64_t own = s->q0 - s->k0;
    for (int64_t i = 0, rows; i < s->keys; i += rows) {
        const int64_t first = max64(i - own, 0);
        rows = i < own ? own : min64(STRIP_GRAIN, s->keys - i);
        struct strip_factor f = {.a = p + first * s->pitch + i,
                                 .a_row = 1,
                                 .a_col = s->pitch,
                                 .k = s->n - first,
                                 .ldy = h->W,
                                 .ldb = lda,
                                 .add = true};
        for (int64_t c = 0; c < h->D; c += STRIP_COLS) {
            f.cols = min64(h->D - c, STRIP_COLS);
            strip_products(
                &(struct strip){y + (s->k0 + i) * h->W + c, a + (s->q0 + first) * lda + c, rows}, 1,
                &f, f.k);
        }
    }
}
#else
int64_t diff_attend_copies(int64_t head_dim, int64_t longest)
{
    (void)head_dim, (void)longest;
    return 0;
}
#endif

/* y (n, keys) = or += rows of the queries in a times rows of the keys, transposed. */
static void scores(const struct head *h, const struct span *s, real *y, const real *a, int64_t lda,
                   int of, bool add)
{
    const struct keys *k = &h->operand[of];
#ifndef QTRAJ_REAL_F64
    if (h->strips) {
        strip_scores(h, s, y, a, lda, k, add);
        return;
    }
#endif
    mat_gemm(MAT_NT, y, s->pitch, a + s->q0 * lda, lda, k->x + s->k0 * h->W, h->W, s->n, s->keys,
             h->D, add);
}

/* Rows of the queries in y = or += p (n, keys) times rows of the keys. */
static void to_queries(const struct head *h, const struct span *s, real *y, int64_t ldy,
                       const real *p, int of, bool add)
{
    const struct keys *k = &h->operand[of];
#ifndef QTRAJ_REAL_F64
    if (h->strips) {
        strip_queries(h, s, y, ldy, p, k, add);
        return;
    }
#endif
    mat_gemm(MAT_NN, y + s->q0 * ldy, ldy, p, s->pitch, k->x + s->k0 * h->W, h->W, s->n, h->D,
             s->keys, add);
}

/* Rows of the keys in y += pᵀ times rows of the queries in a. */
static void to_keys(const struct head *h, const struct span *s, real *y, const real *p,
                    const real *a, int64_t lda)
{
#ifndef QTRAJ_REAL_F64
    if (h->strips) {
        strip_keys(h, s, y, p, a, lda);
        return;
    }
#endif
    mat_gemm(MAT_TN, y + s->k0 * h->W, h->W, p, s->pitch, a + s->q0 * lda, lda, s->keys, h->D, s->n,
             1);
}

/* --- forms --- */

static void value_tile(const struct head *h, const struct span *s)
{
    real *p = h->plane[P];
    scores(h, s, p, h->value.q, h->W, KEYS, false);
    for (int64_t i = 0; i < s->n; i++) {
        int64_t lo, hi;
        visible(h, s, i, &lo, &hi);
        h->log_sum[(s->q0 + i) * h->heads] =
            diff_softmax(p + i * s->pitch, s->keys, lo, hi, h->scale);
    }
    to_queries(h, s, h->value.o, h->ldo, p, VALUES, false);
}

/* Scores and their tangents, before the softmax. */
static void tangent_scores(const struct head *h, const struct span *s)
{
    scores(h, s, h->plane[P], h->value.q, h->W, KEYS, false);
    scores(h, s, h->plane[DP], h->tangent.q, h->W, KEYS, false);
    scores(h, s, h->plane[DP], h->value.q, h->W, KEY_TANGENTS, true);
}

/* Replaces the scores by probabilities p, and their tangents or the adjoints of p in plane `which`
 * by the tangents of p or the adjoints of the scores: the same map (diff_softmax_tangent). */
static void softmax_tangents(const struct head *h, const struct span *s, int which)
{
    for (int64_t i = 0; i < s->n; i++) {
        int64_t lo, hi, at = i * s->pitch;
        visible(h, s, i, &lo, &hi);
        diff_softmax_tangent(h->plane[P] + at, h->plane[which] + at, s->keys, lo, hi, h->scale,
                             h->log_sum[(s->q0 + i) * h->heads]);
    }
}

static void tangent_tile(const struct head *h, const struct span *s)
{
    tangent_scores(h, s);
    softmax_tangents(h, s, DP);
    to_queries(h, s, h->tangent.o, h->ldo, h->plane[DP], VALUES, false);
    to_queries(h, s, h->tangent.o, h->ldo, h->plane[P], VALUE_TANGENTS, true);
}

static void adjoint_tile(const struct head *h, const struct span *s)
{
    const struct side *x = &h->value, *g = &h->adjoint;
    scores(h, s, h->plane[P], x->q, h->W, KEYS, false);
    scores(h, s, h->plane[G], g->o, h->ldo, VALUES, false);
    softmax_tangents(h, s, G);
    to_keys(h, s, g->v, h->plane[P], g->o, h->ldo);
    to_queries(h, s, g->q, h->W, h->plane[G], KEYS, false);
    to_keys(h, s, g->k, h->plane[G], x->q, h->W);
}

static void adjoint_tangent_tile(const struct head *h, const struct span *s)
{
    const struct side *x = &h->value, *dx = &h->tangent, *g = &h->adjoint,
                      *dg = &h->adjoint_tangent;
    tangent_scores(h, s);
    scores(h, s, h->plane[G], g->o, h->ldo, VALUES, false);
    scores(h, s, h->plane[DG], dg->o, h->ldo, VALUES, false);
    scores(h, s, h->plane[DG], g->o, h->ldo, VALUE_TANGENTS, true);
    for (int64_t i = 0; i < s->n; i++) {
        int64_t lo, hi, at = i * s->pitch;
        visible(h, s, i, &lo, &hi);
        diff_softmax_adjoint_tangent(h->plane[P] + at, h->plane[DP] + at, h->plane[G] + at,
                                     h->plane[DG] + at, s->keys, lo, hi, h->scale,
                                     h->log_sum[(s->q0 + i) * h->heads]);
    }
    to_keys(h, s, dg->v, h->plane[DP], g->o, h->ldo);
    to_keys(h, s, dg->v, h->plane[P], dg->o, h->ldo);
    to_queries(h, s, dg->q, h->W, h->plane[DG], KEYS, false);
    to_queries(h, s, dg->q, h->W, h->plane[G], KEY_TANGENTS, true);
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
                     .strips = w->copies != NULL,
                     .scale = 1 / (real)sqrt((double)m->head_dim),
                     .log_sum = p->value->log_sum + row * m->heads + head};
    h.value = side_of(p, p->value, row, head);
    h.tangent = side_of(p, p->tangent, row, head);
    h.adjoint = side_of(p, p->adjoint, row, head);
    h.adjoint_tangent = side_of(p, p->adjoint_tangent, row, head);
    const real *const operands[OPERANDS] = {h.value.k, h.value.v, h.tangent.k, h.tangent.v};
    for (int i = 0; i < OPERANDS; i++) h.operand[i].x = operands[i];
    real *planes = w->scores + (int64_t)omp_get_thread_num() * PLANES * QUERY_TILE * w->keys;
    for (int i = 0; i < PLANES; i++) h.plane[i] = planes + i * QUERY_TILE * w->keys;
    return h;
}

/* The copies are this thread's, until the next head of keys; made: they are there. */
static void copy_operands(enum diff_form form, struct head *h, const struct diff_work *w, bool made)
{
#ifndef QTRAJ_REAL_F64
    static const int sets[DIFF_FORMS][OPERANDS] = {
        [DIFF_VALUE] = {TURNED, ROWS},
        [DIFF_TANGENT] = {TURNED, ROWS, TURNED, ROWS},
        [DIFF_ADJOINT] = {TURNED | ROWS, TURNED},
        [DIFF_ADJOINT_TANGENT] = {TURNED | ROWS, TURNED, TURNED | ROWS, TURNED}};
    const int64_t size = whole_strips(w->longest) * h->D;
    real *at = w->copies + (int64_t)omp_get_thread_num() * w->copies_size;
    for (int i = 0; i < OPERANDS && h->strips; i++) {
        struct keys *k = &h->operand[i];
        k->rows = at + 2 * i * size;
        k->turned = k->rows + size;
        if (!made) copy_keys(h, k, sets[form][i]);
    }
#else
    (void)form, (void)h, (void)w, (void)made;
#endif
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
            copy_operands(form, &h, p->work, j > 0);
            const struct side *out = form == DIFF_ADJOINT ? &h.adjoint : &h.adjoint_tangent;
            if (backward && j == 0) zero_rows(out->k, h.W, h.T, h.D);
            if (backward && j == 0) zero_rows(out->v, h.W, h.T, h.D);
            for (int64_t q0 = 0; q0 < h.T; q0 += QUERY_TILE) {
                struct span s = span_of(&h, q0);
                tiles[form](&h, &s);
            }
        }
}

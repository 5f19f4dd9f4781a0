/* The head, slice by slice of positions: h = norm(x), z = W h, the cross-entropy, and back. Only
 * the slice's logits and their tangents are ever held. */
#include "curvature/hvp_engine.h"
#include "linalg/matmul.h"
#include "util/mem.h"
#include <stdlib.h>
#include <string.h>

/* Numbers in the logits of a slice: few enough to stay small, enough rows for the products with the
 * output matrix to be worth its way through memory. By the vocabulary alone. */
enum { LOGITS = 1 << 25, ROWS_MIN = 64, ROWS_MAX = 1024 };

struct head {
    struct hvp_call *c;
    int64_t C, V;
    int64_t row, n;       /* the slice */
    real *h, *dh;         // (P, C) after the norm; its tangent
    real *gh, *dgh;       // (P, C)
    real *z, *dz;         // (P, V) logits, then their adjoint; tangents of the two
    real *p;              // (P) what diff_log_softmax leaves
    double *loss;         // (P)
    int32_t *target;      // (T), -1: not scored
    struct hvp_outer sum; /* the gradient's parts */
};

int64_t hvp_head_rows(int64_t vocab)
{
    int64_t n = LOGITS / vocab;
    n = n < ROWS_MIN ? ROWS_MIN : n;
    return n > ROWS_MAX ? ROWS_MAX : n;
}

static enum status head_init(struct head *d, struct hvp_call *c, struct err *e)
{
    enum status st = OK;
    const struct sequences *s = c->h->s;
    int64_t P = hvp_head_rows(c->h->m->spec.shape.vocab), T = s->offset[s->n];
    *d = (struct head){.c = c, .C = c->h->m->spec.shape.hidden, .V = c->h->m->spec.shape.vocab};
    if (P > T) P = T;
    hvp_params_outer(c->h, c->g, &d->sum);
    TRY(mem_alloc(&d->h, P * d->C, sizeof(real), "hidden states of a slice", e));
    TRY(mem_alloc(&d->gh, P * d->C, sizeof(real), "hidden states of a slice", e));
    TRY(mem_alloc(&d->z, P * d->V, sizeof(real), "logits of a slice", e));
    TRY(mem_alloc(&d->p, P, sizeof(real), "probabilities of a slice", e));
    TRY(mem_alloc(&d->loss, P, sizeof(double), "losses of a slice", e));
    TRY(mem_alloc(&d->target, T, sizeof *d->target, "targets", e));
    for (int64_t i = 0; i < s->n; i++)
        for (int64_t t = s->offset[i]; t < s->offset[i + 1]; t++)
            d->target[t] = t + 1 < s->offset[i + 1] ? s->ids[t + 1] : -1;
    if (c->k == 0) goto done;
    TRY(mem_alloc(&d->dh, P * d->C, sizeof(real), "tangents of a slice", e));
    TRY(mem_alloc(&d->dgh, P * d->C, sizeof(real), "tangents of a slice", e));
    TRY(mem_alloc(&d->dz, P * d->V, sizeof(real), "tangents of logits of a slice", e));
done:
    return st;
}

static void head_free(struct head *d)
{
    free(d->h);
    free(d->dh);
    free(d->gh);
    free(d->dgh);
    free(d->z);
    free(d->dz);
    free(d->p);
    free(d->loss);
    free(d->target);
}

/* The final norm, moving along v. */
static struct diff_norm norm_of(const struct head *d, const struct hvp_outer *v)
{
    const struct hvp_call *c = d->c;
    real *const *w = c->outer.at.p;
    const real *const weights[2] = {w[OUTER_NORM], w[OUTER_NORM_BIAS]};
    const real *const moving[2] = {v ? v->p[OUTER_NORM] : NULL, v ? v->p[OUTER_NORM_BIAS] : NULL};
    return diff_norm_of(&c->h->m->spec, c->work, d->C, false, weights, moving);
}

/* Logits, losses and the logits' adjoint. */
static void slice_values(struct head *d)
{
    struct hvp_call *c = d->c;
    const struct diff_norm f = norm_of(d, NULL);
    const struct diff_work *w = c->work;
    const real weight = (real)(1 / (double)c->h->total);
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < w->n_tiles; i++) {
        int64_t at = w->tiles[i].row * d->C;
        diff_norm(&f, d->h + at, d->C, c->x + d->row * d->C + at, d->C, w->tiles[i].n);
    }
    mat_nt(d->z, d->V, d->h, d->C, c->outer.at.p[OUTER_HEAD], d->C, d->n, d->V, d->C, 0);
#pragma omp parallel for schedule(dynamic, 4)
    for (int64_t i = 0; i < d->n; i++) {
        int32_t target = d->target[d->row + i];
        real *z = d->z + i * d->V;
        d->loss[i] = 0;
        if (target >= 0)
            d->loss[i] = diff_log_softmax(z, d->V, target, weight, &d->p[i]);
        else
            memset(z, 0, (size_t)d->V * sizeof *z);
    }
    for (int64_t i = 0; i < d->n; i++) c->loss += d->loss[i];
}

/* The gradient's parts when it is wanted, and the adjoint of x always. */
static void slice_adjoints(struct head *d)
{
    struct hvp_call *c = d->c;
    const struct diff_norm f = norm_of(d, NULL);
    const struct diff_work *w = c->work;
    int64_t C = d->C, V = d->V;
    mat_nn(d->gh, C, d->z, V, c->outer.at.p[OUTER_HEAD], C, d->n, C, V, 0);
    if (d->sum.p[OUTER_HEAD]) mat_tn(d->sum.p[OUTER_HEAD], C, d->z, V, d->h, C, V, C, d->n, 1);
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < w->n_tiles; i++) {
        int64_t at = w->tiles[i].row * C, x = d->row * C + at;
        real *gw = w->partial + 2 * i * w->partial_width, *gb = gw + w->partial_width;
        memset(gw, 0, (size_t)(2 * w->partial_width) * sizeof *gw);
        diff_norm_adjoint(&f, c->gx + x, c->x + x, C, d->gh + at, C, w->tiles[i].n, false, gw, gb);
    }
    diff_partial_add(w, C, d->sum.p[OUTER_NORM], d->sum.p[OUTER_NORM_BIAS]);
}

/* Tangents of the logits, then of their adjoint. */
static void slice_tangents(struct head *d, const struct diff_norm *f, const real *dx,
                           const real *moving)
{
    struct hvp_call *c = d->c;
    const struct diff_work *w = c->work;
    const real weight = (real)(1 / (double)c->h->total);
    int64_t C = d->C, V = d->V;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < w->n_tiles; i++) {
        int64_t at = w->tiles[i].row * C, x = d->row * C + at;
        diff_norm_tangent(f, d->dh + at, C, c->x + x, dx + x, C, w->tiles[i].n);
    }
    mat_nt(d->dz, V, d->dh, C, c->outer.at.p[OUTER_HEAD], C, d->n, V, C, 0);
    if (moving) mat_nt(d->dz, V, d->h, C, moving, C, d->n, V, C, 1);
#pragma omp parallel for schedule(dynamic, 4)
    for (int64_t i = 0; i < d->n; i++) {
        int32_t target = d->target[d->row + i];
        real *dz = d->dz + i * V;
        if (target >= 0)
            diff_log_softmax_tangent(dz, d->z + i * V, V, target, d->p[i], weight);
        else
            memset(dz, 0, (size_t)V * sizeof *dz);
    }
}

static void slice_product(struct head *d, int64_t k)
{
    struct hvp_call *c = d->c;
    struct hvp_outer v, sum;
    const struct diff_work *w = c->work;
    int64_t C = d->C, V = d->V, T = c->h->s->offset[c->h->s->n];
    const real *dx = c->dx + k * c->dx_pitch;
    real *dgx = c->dgx + k * T * C;
    hvp_params_outer(c->h, c->v[k], &v);
    hvp_params_outer(c->h, c->hv[k], &sum);
    const struct diff_norm f = norm_of(d, &v);
    slice_tangents(d, &f, dx, v.p[OUTER_HEAD]);
    mat_nn(d->dgh, C, d->dz, V, c->outer.at.p[OUTER_HEAD], C, d->n, C, V, 0);
    if (v.p[OUTER_HEAD]) mat_nn(d->dgh, C, d->z, V, v.p[OUTER_HEAD], C, d->n, C, V, 1);
    if (sum.p[OUTER_HEAD]) {
        mat_tn(sum.p[OUTER_HEAD], C, d->dz, V, d->h, C, V, C, d->n, 1);
        mat_tn(sum.p[OUTER_HEAD], C, d->z, V, d->dh, C, V, C, d->n, 1);
    }
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < w->n_tiles; i++) {
        int64_t at = w->tiles[i].row * C, x = d->row * C + at;
        real *gw = w->partial + 2 * i * w->partial_width, *gb = gw + w->partial_width;
        memset(gw, 0, (size_t)(2 * w->partial_width) * sizeof *gw);
        diff_norm_adjoint_tangent(&f, dgx + x, c->x + x, dx + x, C, d->gh + at, d->dgh + at, C,
                                  w->tiles[i].n, false, gw, gb);
    }
    diff_partial_add(w, C, sum.p[OUTER_NORM], sum.p[OUTER_NORM_BIAS]);
}

enum status hvp_head(struct hvp_call *c, struct err *e)
{
    enum status st = OK;
    struct head d;
    int64_t T = c->h->s->offset[c->h->s->n], P = hvp_head_rows(c->h->m->spec.shape.vocab);
    TRY(head_init(&d, c, e));
    c->loss = 0;
    for (d.row = 0; d.row < T; d.row += P) {
        d.n = T - d.row < P ? T - d.row : P;
        const int64_t first[2] = {0, d.n};
        diff_work_cut(c->work, first, 1);
        slice_values(&d);
        if (!c->backward) continue;
        slice_adjoints(&d);
        for (int64_t k = 0; k < c->k; k++) slice_product(&d, k);
    }
    c->loss /= (double)c->h->total;
done:
    head_free(&d);
    return st;
}

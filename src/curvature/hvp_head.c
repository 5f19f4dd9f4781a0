/* The head in slices of positions: h = norm(x), z = W h, the cross-entropy, and the backward pass.
 * Only one slice's logits and tangents exist at a time. */
#include "curvature/hvp_internal.h"
#include "math/row.h"
#include "util/mem.h"
#include "util/num.h"

/* Maximum number of logits in a slice, and of its positions: few enough for little memory. They
 * depend on the vocabulary alone. */
enum { LOGITS = 1 << 25, ROWS_MAX = 1024 };

struct head {
    struct hvp_call *c;
    int64_t C, V, P;
    int64_t row, n;            /* the current positions */
    struct hvp_logits own, at; /* at: of the current positions, in `own` or in a retained state */
    real *h;                   // (P, C) after the norm
    real *dh, *dgh;            // (P, C) tangents of h and of its adjoint, of one vector
    double *loss, *sum, *mean; // (P) loss; sum of e^(z - top); mean of dz over the softmax
    double *log_sum;           // (P) log sum e^z, for the z-loss
    int32_t *target;           // (T), -1: not scored
    real weight;               /* of a position's loss */
    struct hvp_outer g;        /* the gradient's parts */
};

int64_t hvp_head_rows(int64_t vocab)
{
    return max64(min64(LOGITS / vocab, ROWS_MAX), 1);
}

int64_t hvp_logits_bytes(int64_t hidden, int64_t vocab, int64_t rows, int64_t tangent_rows)
{
    return (rows * (hidden + vocab + 1) + tangent_rows * vocab) * (int64_t)sizeof(real);
}

enum status hvp_logits_open(struct hvp_logits *l, const struct model_shape *m, int64_t rows,
                            int64_t tangent_rows, struct err *e)
{
    PASS(mem_alloc(&l->gh, rows * m->hidden, sizeof(real), "adjoints of hidden states", e));
    PASS(mem_alloc(&l->z, rows * m->vocab, sizeof(real), "logits", e));
    PASS(mem_alloc(&l->p, rows, sizeof(real), "probabilities of targets", e));
    return mem_alloc(&l->dz, tangent_rows * m->vocab, sizeof(real), "tangents of logits", e);
}

void hvp_logits_close(struct hvp_logits *l)
{
    free(l->gh);
    free(l->z);
    free(l->p);
    free(l->dz);
}

int64_t hvp_head_bytes(int64_t hidden, int64_t vocab, int64_t tokens, int64_t k, bool kept)
{
    const int64_t P = min64(hvp_head_rows(vocab), tokens), moving = k > 0;
    return (kept ? 0 : hvp_logits_bytes(hidden, vocab, P, moving * P)) +
           P * ((1 + 2 * moving) * hidden * (int64_t)sizeof(real) + 4 * (int64_t)sizeof(double)) +
           tokens * (int64_t)sizeof(int32_t);
}

static enum status head_init(struct head *d, struct hvp_call *c, struct err *e)
{
    const struct hvp *h = c->h;
    const struct sequences *s = h->s;
    const struct model_shape *m = &h->m->spec.shape;
    const int64_t T = c->s->T, P = min64(h->rows, T), moving = c->b.k > 0;
    *d = (struct head){
        .c = c, .C = m->hidden, .V = m->vocab, .P = P, .weight = (real)(1 / (double)h->total)};
    hvp_params_outer(h, c->b.g, &d->g);
    if (!c->s->kept) PASS(hvp_logits_open(&d->own, m, P, moving * P, e));
    PASS(mem_alloc(&d->h, P * d->C, sizeof(real), "hidden states of a slice", e));
    PASS(mem_alloc(&d->dh, moving * P * d->C, sizeof(real), "tangents of a slice", e));
    PASS(mem_alloc(&d->dgh, moving * P * d->C, sizeof(real), "tangents of a slice", e));
    PASS(mem_alloc(&d->loss, 4 * P, sizeof(double), "losses of a slice", e));
    d->sum = d->loss + P;
    d->mean = d->sum + P;
    d->log_sum = d->mean + P;
    PASS(mem_alloc(&d->target, T, sizeof *d->target, "targets", e));
    if (h->targets) {
        memcpy(d->target, h->targets, (size_t)T * sizeof *d->target);
        return OK;
    }
    for (int64_t i = 0; i < s->n; i++)
        for (int64_t t = s->offset[i]; t < s->offset[i + 1]; t++)
            d->target[t] = t + 1 < s->offset[i + 1] ? s->ids[t + 1] : -1;
    return OK;
}

static void head_free(struct head *d)
{
    hvp_logits_close(&d->own);
    free(d->h);
    free(d->dh);
    free(d->dgh);
    free(d->loss);
    free(d->target);
}

/* One vector of the call. */
struct probe {
    struct hvp_outer v, hv;
    const real *dx; // (n, C) of the current positions
    real *dgx;      // (n, C)
};

static struct probe probe_of(const struct head *d, int64_t k)
{
    const struct hvp_call *c = d->c;
    struct probe p = {.dx = hvp_tangent_level(c->s, k, c->s->L, d->row),
                      .dgx = c->s->dgx + (k * c->s->T + d->row) * d->C};
    hvp_params_outer(c->h, c->b.v[k], &p.v);
    hvp_params_outer(c->h, c->b.hv[k], &p.hv);
    return p;
}

/* --- the norm --- */

/* The arguments of the final norm, with tangent v or NULL. */
static struct diff_norm norm_of(const struct head *d, const struct hvp_outer *v)
{
    const struct hvp_call *c = d->c;
    real *const *w = c->s->outer.at.p;
    const real *const weights[2] = {w[OUTER_NORM], w[OUTER_NORM_BIAS]};
    const real *const moving[2] = {v ? v->p[OUTER_NORM] : NULL, v ? v->p[OUTER_NORM_BIAS] : NULL};
    return diff_norm_of(&c->h->m->spec, &c->s->work, d->C, false, weights, moving);
}

/* The norm's values or, for a probe, their tangents. */
static void norm_forward(struct head *d, const struct probe *p)
{
    const struct diff_norm f = norm_of(d, p ? &p->v : NULL);
    const struct diff_work *w = &d->c->s->work;
    const real *x = hvp_level(d->c->s, d->c->s->L, d->row);
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < w->n_tiles; i++) {
        int64_t at = w->tiles[i].row * d->C, n = w->tiles[i].n;
        if (p)
            diff_norm_tangent(&f, d->dh + at, d->C, x + at, p->dx + at, d->C, n);
        else
            diff_norm(&f, d->h + at, d->C, x + at, d->C, n);
    }
}

/* The adjoint of x and the gradient's parts where it is wanted or, for a probe, their tangents. */
static void norm_backward(struct head *d, const struct probe *p)
{
    const struct diff_norm f = norm_of(d, p ? &p->v : NULL);
    const struct diff_work *w = &d->c->s->work;
    const struct hvp_outer *sum = p ? &p->hv : &d->g;
    const real *x = hvp_level(d->c->s, d->c->s->L, d->row);
    real *gx = d->c->s->gx + d->row * d->C;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < w->n_tiles; i++) {
        int64_t at = w->tiles[i].row * d->C, n = w->tiles[i].n;
        real *gw = w->partial + 2 * i * w->partial_width, *gb = gw + w->partial_width;
        memset(gw, 0, (size_t)(2 * w->partial_width) * sizeof *gw);
        if (p)
            diff_norm_adjoint_tangent(&f, p->dgx + at, x + at, p->dx + at, d->C, d->at.gh + at,
                                      d->dgh + at, d->C, n, false, gw, gb);
        else
            diff_norm_adjoint(&f, gx + at, x + at, d->C, d->at.gh + at, d->C, n, false, gw, gb);
    }
    diff_partial_add(w, d->C, sum->p[OUTER_NORM], sum->p[OUTER_NORM_BIAS]);
}

/* --- the logits of the current positions --- */

/* The target of position i, -1: it is not scored. */
static int32_t target_of(const struct head *d, int64_t i)
{
    return d->target[d->row + i];
}

static void logits(struct head *d)
{
    mat_with_weights(&d->c->s->work.products, MAT_NT, d->at.z, d->V, d->h, d->C,
                     d->c->s->outer.at.p[OUTER_HEAD], d->C, d->n, d->V, d->C, false);
}

static void logit_tangents(struct head *d, const struct probe *p)
{
    struct mat_work *w = &d->c->s->work.products;
    const real *v = p->v.p[OUTER_HEAD];
    mat_with_weights(w, MAT_NT, d->at.dz, d->V, d->dh, d->C, d->c->s->outer.at.p[OUTER_HEAD], d->C,
                     d->n, d->V, d->C, false);
    if (v) mat_add_product(w, MAT_NT, d->at.dz, d->V, d->h, d->C, v, d->C, d->n, d->V, d->C);
}

/* Replaces the logits by exponentials and adds the losses to that of the call. */
static void losses(struct head *d)
{
#pragma omp parallel for schedule(dynamic, 4)
    for (int64_t i = 0; i < d->n; i++) {
        real *z = d->at.z + i * d->V;
        if (target_of(d, i) < 0) continue;
        const double at_target = (double)z[target_of(d, i)];
        d->loss[i] = diff_loss(z, d->V, target_of(d, i), &d->sum[i]);
        d->log_sum[i] = d->loss[i] + at_target;
    }
    for (int64_t i = 0; i < d->n; i++) {
        if (target_of(d, i) < 0) continue;
        d->c->loss += d->loss[i];
        d->c->z_part += d->log_sum[i] * d->log_sum[i];
    }
}

/* Adds the adjoint of c (log sum e^z)^2, which is 2 c log sum e^z softmax(z), to that of the loss.
 */
static void add_z_adjoint(const struct head *d, int64_t i)
{
    real *z = d->at.z + i * d->V, *at = z + target_of(d, i);
    const real more = (real)(2 * d->c->h->z_loss * d->log_sum[i]);
    row_axpy(z, more, z, d->V);
    *at += more * d->weight; /* softmax, where the row had softmax - 1 */
}

/* Replaces the exponentials by the adjoint of the logits and adds to the adjoints of h and W. */
static void adjoints(struct head *d)
{
    struct mat_work *products = &d->c->s->work.products;
    const int64_t C = d->C, V = d->V;
#pragma omp parallel for schedule(dynamic, 4)
    for (int64_t i = 0; i < d->n; i++) {
        real *z = d->at.z + i * V;
        if (target_of(d, i) < 0) {
            memset(z, 0, (size_t)V * sizeof *z);
            continue;
        }
        d->at.p[i] = diff_loss_adjoint(z, V, target_of(d, i), d->weight, d->sum[i]);
        if (d->c->h->z_loss != 0) add_z_adjoint(d, i);
    }
    mat_with_weights(products, MAT_NN, d->at.gh, C, d->at.z, V, d->c->s->outer.at.p[OUTER_HEAD], C,
                     d->n, C, V, false);
    real *sum = d->g.p[OUTER_HEAD];
    if (sum) mat_add_product(products, MAT_TN, sum, C, d->at.z, V, d->h, C, V, C, d->n);
}

/* The means of dz over the softmax, from the adjoint of z. */
static void means(struct head *d)
{
#pragma omp parallel for schedule(dynamic, 4)
    for (int64_t i = 0; i < d->n; i++) {
        real *z = d->at.z + i * d->V, saved;
        if (target_of(d, i) < 0) continue;
        real *at = z + target_of(d, i);
        saved = *at;
        *at = d->at.p[i]; /* weight times the softmax */
        d->mean[i] = diff_loss_dot(z, d->at.dz + i * d->V, d->V) / (double)d->weight;
        *at = saved;
    }
}

/* Replaces the tangents of the logits by those of their adjoint and adds to those of h and W. */
static void adjoint_tangents(struct head *d, const struct probe *p)
{
    struct mat_work *products = &d->c->s->work.products;
    const int64_t C = d->C, V = d->V;
#pragma omp parallel for schedule(dynamic, 4)
    for (int64_t i = 0; i < d->n; i++) {
        real *dz = d->at.dz + i * V;
        if (target_of(d, i) >= 0)
            diff_loss_adjoint_tangent(dz, d->at.z + i * V, V, target_of(d, i), d->at.p[i],
                                      (real)d->mean[i]);
        else
            memset(dz, 0, (size_t)V * sizeof *dz);
    }
    const real *w = d->c->s->outer.at.p[OUTER_HEAD], *v = p->v.p[OUTER_HEAD];
    real *hv = p->hv.p[OUTER_HEAD];
    mat_with_weights(products, MAT_NN, d->dgh, C, d->at.dz, V, w, C, d->n, C, V, false);
    if (v) mat_add_product(products, MAT_NN, d->dgh, C, d->at.z, V, v, C, d->n, C, V);
    if (!hv) return;
    mat_add_product(products, MAT_TN, hv, C, d->at.dz, V, d->h, C, V, C, d->n);
    mat_add_product(products, MAT_TN, hv, C, d->at.z, V, d->dh, C, V, C, d->n);
}

/* A retained state has the adjoints of the logits. */
static void slice(struct head *d)
{
    norm_forward(d, NULL);
    if (!d->c->known) {
        logits(d);
        losses(d);
        if (!d->c->backward) return;
        adjoints(d);
        norm_backward(d, NULL);
    }
    for (int64_t k = 0; k < d->c->b.k; k++) {
        const struct probe p = probe_of(d, k);
        norm_forward(d, &p);
        logit_tangents(d, &p);
        means(d);
        adjoint_tangents(d, &p);
        norm_backward(d, &p);
    }
}

enum status hvp_head(struct hvp_call *c, struct err *e)
{
    enum status st = OK;
    struct head d;
    const struct hvp_state *s = c->s;
    TRY(head_init(&d, c, e));
    c->loss = c->z_part = 0;
    for (d.row = 0; d.row < s->T; d.row += d.P) {
        const struct hvp_logits *kept = &s->logits;
        d.n = min64(s->T - d.row, d.P);
        d.at = d.own;
        if (s->kept == HVP_KEPT_VALUES) d.at = *kept;
        if (s->kept == HVP_KEPT_ALL)
            d.at = (struct hvp_logits){kept->gh + d.row * d.C, kept->z + d.row * d.V,
                                       kept->p + d.row, kept->dz};
        const int64_t first[2] = {0, d.n};
        diff_work_cut(&c->s->work, first, 1);
        slice(&d);
        TRY(mat_work_check(&c->s->work.products, e));
    }
    c->h->z_part = c->h->z_loss * c->z_part / (double)c->h->total;
    c->loss = c->loss / (double)c->h->total + c->h->z_part;
    if (c->known) c->loss = s->loss;
    c->s->loss = c->loss;
done:
    head_free(&d);
    return st;
}

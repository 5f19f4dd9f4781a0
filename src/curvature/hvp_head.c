/* The head in slices of positions and of the vocabulary: h = norm(x), z = W h, the cross-entropy,
 * and the backward pass. Only one slice's logits and tangents exist at a time. If a slice has the
 * whole vocabulary, they serve for the sums of the softmax and for the adjoints; else they are
 * computed twice. */
#include "curvature/hvp_internal.h"
#include "util/mem.h"
#include "util/num.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Maximum number of logits in a slice, and of its positions: few enough for little memory, enough
 * for the products with the output matrix to be worth reading it. They depend on the vocabulary
 * alone. */
enum { LOGITS = 1 << 25, ROWS_MIN = 64, ROWS_MAX = 1024 };

struct head {
    struct hvp_call *c;
    int64_t C, V, P;
    int64_t row, n;         /* the current positions */
    int64_t columns;        /* of a slice */
    int64_t at, width;      /* the current part of the vocabulary */
    bool once;              /* the part is the whole vocabulary */
    int64_t probes;         /* whose tangents exist at the same time: at most 1 if `once` */
    real *h, *gh;           // (P, C) after the norm; its adjoint
    real *gh_owned;         /* owner of gh unless it is retained; so for the next three */
    real *dh, *dgh;         // (probes, P, C)
    real *z, *z_owned;      // (P, columns) logits, then their adjoint
    real *dz, *dz_owned;    // (P, columns) tangents of the two
    struct diff_loss *sums; // (P)
    double *at_target;      // (P) the target's logit
    real *p, *p_owned;      // (P) weight times the target's probability
    double *mean;           // (probes, P) of dz over the softmax; first the sum over e^(z - top)
    int32_t *target;        // (T), -1: not scored
    real weight;            /* of a position's loss */
    struct hvp_outer sum;   /* the gradient's parts */
};

struct hvp_slice hvp_head_slice(int64_t vocab)
{
    int64_t rows = LOGITS / vocab, parts = (vocab * ROWS_MAX + LOGITS - 1) / LOGITS;
    if (rows < ROWS_MIN) return (struct hvp_slice){ROWS_MAX, (vocab + parts - 1) / parts};
    return (struct hvp_slice){min64(rows, ROWS_MAX), vocab};
}

bool hvp_head_whole(const struct hvp_slice *s, int64_t vocab)
{
    return s->columns >= vocab;
}

int64_t hvp_head_bytes(const struct hvp_slice *s, int64_t hidden, int64_t vocab, int64_t tokens,
                       int64_t k, bool kept)
{
    const bool whole = hvp_head_whole(s, vocab), owned = !kept || !whole;
    int64_t P = min64(s->rows, tokens), probes = whole ? k > 0 : k;
    int64_t numbers =
        (2 * (1 + probes) - kept) * hidden + (owned + (k > 0 && !kept)) * s->columns + owned;
    int64_t doubles = 1 + probes;
    return P * (numbers * (int64_t)sizeof(real) + doubles * (int64_t)sizeof(double) +
                (int64_t)sizeof(struct diff_loss)) +
           tokens * (int64_t)sizeof(int32_t);
}

static enum status head_init(struct head *d, struct hvp_call *c, struct err *e)
{
    const struct hvp *h = c->h;
    const struct sequences *s = h->s;
    const struct model_shape *m = &h->m->spec.shape;
    int64_t T = c->s->T, P = min64(h->slice.rows, T);
    *d = (struct head){.c = c,
                       .C = m->hidden,
                       .V = m->vocab,
                       .P = P,
                       .columns = h->slice.columns,
                       .once = hvp_head_whole(&h->slice, m->vocab),
                       .weight = (real)(1 / (double)h->total)};
    d->probes = d->once ? c->b.k > 0 : c->b.k;
    hvp_params_outer(h, c->b.g, &d->sum);
    PASS(mem_alloc(&d->h, P * d->C, sizeof(real), "hidden states of a slice", e));
    PASS(mem_alloc(&d->gh_owned, c->s->kept ? 0 : P * d->C, sizeof(real),
                   "hidden states of a slice", e));
    PASS(mem_alloc(&d->dh, d->probes * P * d->C, sizeof(real), "tangents of a slice", e));
    PASS(mem_alloc(&d->dgh, d->probes * P * d->C, sizeof(real), "tangents of a slice", e));
    PASS(mem_alloc(&d->z_owned, c->s->gz ? 0 : P * d->columns, sizeof(real), "logits of a slice",
                   e));
    PASS(mem_alloc(&d->dz_owned, c->b.k > 0 && !c->s->dz ? P * d->columns : 0, sizeof(real),
                   "tangents of logits", e));
    d->dz = c->s->dz ? c->s->dz : d->dz_owned;
    PASS(mem_alloc(&d->sums, P, sizeof *d->sums, "sums of a slice", e));
    PASS(mem_alloc(&d->at_target, P, sizeof(double), "logits of targets", e));
    PASS(mem_alloc(&d->p_owned, c->s->gz ? 0 : P, sizeof(real), "probabilities of targets", e));
    PASS(mem_alloc(&d->mean, d->probes * P, sizeof(double), "sums of a slice", e));
    PASS(mem_alloc(&d->target, T, sizeof *d->target, "targets", e));
    for (int64_t i = 0; i < s->n; i++)
        for (int64_t t = s->offset[i]; t < s->offset[i + 1]; t++)
            d->target[t] = t + 1 < s->offset[i + 1] ? s->ids[t + 1] : -1;
    return OK;
}

static void head_free(struct head *d)
{
    free(d->h);
    free(d->gh_owned);
    free(d->dh);
    free(d->dgh);
    free(d->z_owned);
    free(d->dz_owned);
    free(d->sums);
    free(d->at_target);
    free(d->p_owned);
    free(d->mean);
    free(d->target);
}

/* One vector of the call. */
struct probe {
    struct hvp_outer v, hv;
    const real *dx; // (n, C) of the current positions
    real *dgx;      // (n, C)
    real *dh, *dgh; // (P, C)
    double *mean;   // (P)
};

static struct probe probe_of(const struct head *d, int64_t k)
{
    const struct hvp_call *c = d->c;
    int64_t at = d->once ? 0 : k * d->P;
    struct probe p = {.dx = hvp_tangent_level(c->s, k, c->s->L, d->row),
                      .dgx = c->s->dgx + (k * c->s->T + d->row) * d->C,
                      .dh = d->dh + at * d->C,
                      .dgh = d->dgh + at * d->C,
                      .mean = d->mean + at};
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
            diff_norm_tangent(&f, p->dh + at, d->C, x + at, p->dx + at, d->C, n);
        else
            diff_norm(&f, d->h + at, d->C, x + at, d->C, n);
    }
}

/* The adjoint of x and the gradient's parts where it is wanted or, for a probe, their tangents. */
static void norm_backward(struct head *d, const struct probe *p)
{
    const struct diff_norm f = norm_of(d, p ? &p->v : NULL);
    const struct diff_work *w = &d->c->s->work;
    const struct hvp_outer *sum = p ? &p->hv : &d->sum;
    const real *x = hvp_level(d->c->s, d->c->s->L, d->row);
    real *gx = d->c->s->gx + d->row * d->C;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < w->n_tiles; i++) {
        int64_t at = w->tiles[i].row * d->C, n = w->tiles[i].n;
        real *gw = w->partial + 2 * i * w->partial_width, *gb = gw + w->partial_width;
        memset(gw, 0, (size_t)(2 * w->partial_width) * sizeof *gw);
        if (p)
            diff_norm_adjoint_tangent(&f, p->dgx + at, x + at, p->dx + at, d->C, d->gh + at,
                                      p->dgh + at, d->C, n, false, gw, gb);
        else
            diff_norm_adjoint(&f, gx + at, x + at, d->C, d->gh + at, d->C, n, false, gw, gb);
    }
    diff_partial_add(w, d->C, sum->p[OUTER_NORM], sum->p[OUTER_NORM_BIAS]);
}

/* --- the current part of the vocabulary --- */

static bool scored(const struct head *d, int64_t i)
{
    return d->target[d->row + i] >= 0;
}

/* The target's column, -1: in another slice. */
static int64_t target_in(const struct head *d, int64_t i)
{
    int64_t column = d->target[d->row + i] - d->at;
    return column >= 0 && column < d->width ? column : -1;
}

/* The part's rows of a matrix (V, C), or NULL. */
static real *rows_in(const struct head *d, real *matrix)
{
    return matrix ? matrix + d->at * d->C : NULL;
}

static void logits(struct head *d)
{
    const real *w = rows_in(d, d->c->s->outer.at.p[OUTER_HEAD]);
    mat_with_weights(&d->c->s->work.products, MAT_NT, d->z, d->columns, d->h, d->C, w, d->C, d->n,
                     d->width, d->C, false);
}

static void logit_tangents(struct head *d, const struct probe *p)
{
    const real *w = rows_in(d, d->c->s->outer.at.p[OUTER_HEAD]),
               *v = rows_in(d, p->v.p[OUTER_HEAD]);
    mat_with_weights(&d->c->s->work.products, MAT_NT, d->dz, d->columns, p->dh, d->C, w, d->C, d->n,
                     d->width, d->C, false);
    if (v)
        mat_add_product(&d->c->s->work.products, MAT_NT, d->dz, d->columns, d->h, d->C, v, d->C,
                        d->n, d->width, d->C);
}

static void sums_begin(struct head *d)
{
    for (int64_t i = 0; i < d->n; i++) d->sums[i] = (struct diff_loss){-(real)INFINITY, 0};
    for (int64_t i = 0; i < d->probes * d->P; i++) d->mean[i] = 0;
}

/* Adds the logits to the sums of the softmax and replaces them by exponentials. */
static void sums_add(struct head *d)
{
#pragma omp parallel for schedule(dynamic, 4)
    for (int64_t i = 0; i < d->n; i++) {
        real *z = d->z + i * d->columns;
        int64_t target = target_in(d, i);
        if (!scored(d, i)) continue;
        if (target >= 0) d->at_target[i] = (double)z[target];
        double factor = diff_loss_sum(&d->sums[i], z, d->width);
        for (int64_t k = 0; k < d->probes; k++) d->mean[k * d->P + i] *= factor;
    }
}

static void sums_add_tangents(struct head *d, const struct probe *p)
{
#pragma omp parallel for schedule(dynamic, 4)
    for (int64_t i = 0; i < d->n; i++)
        if (scored(d, i))
            p->mean[i] += diff_loss_dot(d->z + i * d->columns, d->dz + i * d->columns, d->width);
}

static void sums_end(struct head *d)
{
    for (int64_t i = 0; i < d->n; i++)
        if (scored(d, i)) {
            d->c->loss += (double)d->sums[i].top + log(d->sums[i].sum) - d->at_target[i];
            for (int64_t k = 0; k < d->probes; k++) d->mean[k * d->P + i] /= d->sums[i].sum;
        }
}

static void exponentials(struct head *d)
{
#pragma omp parallel for schedule(dynamic, 4)
    for (int64_t i = 0; i < d->n; i++)
        if (scored(d, i)) diff_loss_exp(d->z + i * d->columns, d->width, d->sums[i].top);
}

/* Replaces the exponentials by the adjoint of the logits and adds to the adjoints of h and W. */
static void adjoints(struct head *d)
{
    int64_t C = d->C, N = d->columns;
#pragma omp parallel for schedule(dynamic, 4)
    for (int64_t i = 0; i < d->n; i++) {
        real *z = d->z + i * N, p;
        int64_t target = target_in(d, i);
        if (!scored(d, i)) {
            memset(z, 0, (size_t)d->width * sizeof *z);
            continue;
        }
        p = diff_loss_adjoint(z, d->width, target, d->weight, d->sums[i].sum);
        if (target >= 0) d->p[i] = p;
    }
    real *w = rows_in(d, d->c->s->outer.at.p[OUTER_HEAD]), *sum = rows_in(d, d->sum.p[OUTER_HEAD]);
    if (!d->c->known)
        mat_with_weights(&d->c->s->work.products, MAT_NN, d->gh, C, d->z, N, w, C, d->n, C,
                         d->width, d->at > 0);
    if (sum)
        mat_add_product(&d->c->s->work.products, MAT_TN, sum, C, d->z, N, d->h, C, d->width, C,
                        d->n);
}

/* The means of dz over the softmax for a slice with the whole vocabulary, from the adjoint of z. */
static void means(struct head *d, const struct probe *p)
{
#pragma omp parallel for schedule(dynamic, 4)
    for (int64_t i = 0; i < d->n; i++) {
        real *z = d->z + i * d->columns, saved;
        if (!scored(d, i)) continue;
        real *at = z + d->target[d->row + i];
        saved = *at;
        *at = d->p[i]; /* weight times the softmax */
        p->mean[i] = diff_loss_dot(z, d->dz + i * d->columns, d->width) / (double)d->weight;
        *at = saved;
    }
}

/* Replaces the tangents of the logits by those of their adjoint and adds to those of h and W. */
static void adjoint_tangents(struct head *d, const struct probe *p)
{
    int64_t C = d->C, N = d->columns;
#pragma omp parallel for schedule(dynamic, 4)
    for (int64_t i = 0; i < d->n; i++) {
        real *dz = d->dz + i * N;
        if (scored(d, i))
            diff_loss_adjoint_tangent(dz, d->z + i * N, d->width, target_in(d, i), d->p[i],
                                      (real)p->mean[i]);
        else
            memset(dz, 0, (size_t)d->width * sizeof *dz);
    }
    real *w = rows_in(d, d->c->s->outer.at.p[OUTER_HEAD]), *v = rows_in(d, p->v.p[OUTER_HEAD]);
    real *hv = rows_in(d, p->hv.p[OUTER_HEAD]);
    mat_with_weights(&d->c->s->work.products, MAT_NN, p->dgh, C, d->dz, N, w, C, d->n, C, d->width,
                     d->at > 0);
    if (v)
        mat_add_product(&d->c->s->work.products, MAT_NN, p->dgh, C, d->z, N, v, C, d->n, C,
                        d->width);
    if (!hv) return;
    mat_add_product(&d->c->s->work.products, MAT_TN, hv, C, d->dz, N, d->h, C, d->width, C, d->n);
    mat_add_product(&d->c->s->work.products, MAT_TN, hv, C, d->z, N, p->dh, C, d->width, C, d->n);
}

/* --- the current positions --- */

/* A retained state has the adjoints of the logits. */
static void whole_vocabulary(struct head *d)
{
    d->at = 0;
    d->width = d->V;
    if (!d->c->known) {
        logits(d);
        sums_add(d);
        sums_end(d);
        if (!d->c->backward) return;
        adjoints(d);
        norm_backward(d, NULL);
    }
    for (int64_t k = 0; k < d->c->b.k; k++) {
        const struct probe p = probe_of(d, k);
        norm_forward(d, &p);
        logit_tangents(d, &p);
        means(d, &p);
        adjoint_tangents(d, &p);
        norm_backward(d, &p);
    }
}

/* Moves on to the next part of the vocabulary; at < 0 before the first. */
static bool next_part(struct head *d)
{
    d->at = d->at < 0 ? 0 : d->at + d->columns;
    d->width = min64(d->V - d->at, d->columns);
    return d->at < d->V;
}

/* Takes one or two (else NULL) steps for every vector. */
typedef void step(struct head *d, const struct probe *p);
static void each_probe(struct head *d, step *first, step *second)
{
    for (int64_t k = 0; k < d->c->b.k; k++) {
        const struct probe p = probe_of(d, k);
        first(d, &p);
        if (second) second(d, &p);
    }
}

static void sliced_vocabulary(struct head *d)
{
    each_probe(d, norm_forward, NULL);
    for (d->at = -1; next_part(d);) {
        logits(d);
        sums_add(d);
        each_probe(d, logit_tangents, sums_add_tangents);
    }
    sums_end(d);
    if (!d->c->backward) return;
    for (d->at = -1; next_part(d);) {
        logits(d);
        exponentials(d);
        adjoints(d);
        each_probe(d, logit_tangents, adjoint_tangents);
    }
    if (!d->c->known) norm_backward(d, NULL);
    each_probe(d, norm_backward, NULL);
}

enum status hvp_head(struct hvp_call *c, struct err *e)
{
    enum status st = OK;
    struct head d;
    int64_t T = c->s->T;
    TRY(head_init(&d, c, e));
    c->loss = 0;
    for (d.row = 0; d.row < T; d.row += d.P) {
        d.n = min64(T - d.row, d.P);
        d.gh = c->s->kept ? c->s->gh + d.row * d.C : d.gh_owned;
        d.z = c->s->gz ? c->s->gz + d.row * d.V : d.z_owned;
        d.p = c->s->gz ? c->s->p + d.row : d.p_owned;
        const int64_t first[2] = {0, d.n};
        diff_work_cut(&c->s->work, first, 1);
        norm_forward(&d, NULL);
        sums_begin(&d);
        (d.once ? whole_vocabulary : sliced_vocabulary)(&d);
        TRY(mat_work_check(&c->s->work.products, e));
    }
    c->loss /= (double)c->h->total;
    if (c->known && d.once) c->loss = c->s->loss;
    c->s->loss = c->loss;
done:
    head_free(&d);
    return st;
}

/* One call: the blocks forward, the head, and the blocks backward, with their activations
 * recomputed or taken from a retained state. The outer loop is over blocks, so that their weights
 * are read twice whatever the number of tokens; the inner loop is over chunks of sequences. */
#include "curvature/hvp_internal.h"
#include <math.h>

/* A block and its weights. */
struct layer {
    int64_t at;
    struct diff_weights w;
};

/* Of `n` lanes. */
static struct diff_lane *lane(const struct hvp_state *s, struct diff_lane *lanes, int64_t n,
                              int64_t layer, int64_t chunk)
{
    return &lanes[n > 1 ? layer * s->n_chunks + chunk : 0];
}

static struct diff_pass pass_of(struct hvp_call *r, const struct layer *l, int64_t chunk,
                                bool again)
{
    struct hvp_state *s = r->s;
    const struct hvp_chunk *c = &s->chunks[chunk];
    struct diff_pass p = {.spec = &r->h->m->spec,
                          .program = &r->h->program,
                          .layer = l->at,
                          .work = &s->work,
                          .w = &l->w.params,
                          .value = lane(s, s->value, s->n_values, l->at, chunk),
                          .again = again};
    diff_work_cut(&s->work, c->first, c->s1 - c->s0);
    p.value->b[DIFF_X0] = hvp_level(s, l->at, c->row);
    p.value->b[DIFF_X2] = hvp_level(s, l->at + 1, c->row);
    return p;
}

/* Sets the lane of vector j's tangents in p, and their parameters v. */
static void set_tangents(struct hvp_call *r, struct diff_pass *p, int64_t chunk, int64_t j,
                         const struct diff_params *v)
{
    struct hvp_state *s = r->s;
    int64_t row = s->chunks[chunk].row;
    p->v = v;
    p->tangent = lane(s, s->tangent, s->n_lanes, p->layer, chunk);
    p->tangent->b[DIFF_X0] = hvp_tangent_level(s, j, p->layer, row);
    p->tangent->b[DIFF_X2] = hvp_tangent_level(s, j, p->layer + 1, row);
}

static void layer_forward(struct hvp_call *r, const struct layer *l)
{
    for (int64_t c = 0; c < r->s->n_chunks; c++) {
        struct diff_pass p = pass_of(r, l, c, false);
        if (!r->known) diff_run(DIFF_VALUE, &p);
        for (int64_t j = 0; l->at >= r->from && j < r->b.k; j++) {
            struct diff_params v;
            hvp_params(r->h, r->b.v[j], l->at, &v);
            set_tangents(r, &p, c, j, &v);
            diff_run(DIFF_TANGENT, &p);
        }
    }
}

/* The adjoints of the block's input replace those of its output in place: the first operation of
 * the backward pass has read them before the last one writes. */
static void layer_backward(struct hvp_call *r, const struct layer *l)
{
    struct hvp_state *s = r->s;
    int64_t TC = s->T * s->C;
    struct diff_params g;
    hvp_params(r->h, r->b.g, l->at, &g);
    for (int64_t c = 0; c < s->n_chunks; c++) {
        int64_t at = s->chunks[c].row * s->C;
        struct diff_pass p = pass_of(r, l, c, true);
        if (!s->kept) diff_run(DIFF_VALUE, &p);
        p.adjoint = lane(s, s->adjoint, s->n_lanes, l->at, c);
        p.adjoint->b[DIFF_X0] = p.adjoint->b[DIFF_X2] = s->gx + at;
        p.g = r->b.g ? &g : NULL;
        if (!r->known) diff_run(DIFF_ADJOINT, &p);
        for (int64_t j = 0; j < r->b.k; j++) {
            struct diff_params v, hv;
            hvp_params(r->h, r->b.v[j], l->at, &v);
            hvp_params(r->h, r->b.hv[j], l->at, &hv);
            set_tangents(r, &p, c, j, &v);
            if (s->kept != HVP_KEPT_ALL) diff_run(DIFF_TANGENT, &p);
            p.g = &hv;
            p.adjoint_tangent = &s->adjoint_tangent;
            p.adjoint_tangent->b[DIFF_X0] = p.adjoint_tangent->b[DIFF_X2] = s->dgx + j * TC + at;
            diff_run(DIFF_ADJOINT_TANGENT, &p);
        }
    }
}

/* From the caller's memory, from ranks that share vectors, or from the checkpoint. */
static enum status load(const struct hvp *h, struct layer *l, struct err *e)
{
    const struct block *shared;
    struct diff_params along;
    if (h->blocks) return diff_weights_borrow(h->m, &h->blocks[l->at], &l->w, e);
    hvp_params(h, h->direction, l->at, &along);
    if (!h->shared || !h->share.block)
        return diff_weights_load(h->m, l->at, &along, h->step, &l->w, e);
    PASS(h->share.block(h->share.context, l->at, &shared, e));
    return diff_weights_borrow(h->m, shared, &l->w, e);
}

static enum status one_layer(struct hvp_call *r, int64_t at, bool back, struct err *e)
{
    const struct hvp *h = r->h;
    const bool touched = at >= r->from;
    struct layer l = {.at = at};
    if (touched) PASS(hvp_gather(h, &r->b, at, e));
    if (back) hvp_clear(h, &r->b, at);
    PASS(load(h, &l, e));
    (back ? layer_backward : layer_forward)(r, &l);
    diff_weights_free(&l.w);
    PASS(mat_work_check(&r->s->work.products, e));
    if (back) PASS(hvp_reduce(h, &r->b, at, e));
    if (touched && h->moved)
        h->moved(h->watcher, (double)(r->b.k > 1 ? r->b.k : 1) / (2 * (double)r->s->L));
    return OK;
}

/* In front of r->from there are values alone, which may be known, and nothing is wanted. */
static enum status each_layer(struct hvp_call *r, bool back, struct err *e)
{
    const int64_t L = r->s->L;
    for (int64_t i = back || r->known ? r->from : 0; i < L; i++)
        PASS(one_layer(r, back ? L - 1 - (i - r->from) : i, back, e));
    return OK;
}

/* Looks up the embeddings and their tangents; in a product of one layer, the tangents of that
 * layer's input are zero. */
static enum status run_start(struct hvp_call *r, struct err *e)
{
    const int64_t numbers = r->s->T * r->s->C;
    if (!r->known) hvp_embed(r->h, r->s->outer.at.p[OUTER_EMBED], r->s->x);
    for (int64_t j = 0; r->from > 0 && j < r->b.k; j++)
        hvp_zero(hvp_tangent_level(r->s, j, r->from, 0), numbers);
    if (r->from > 0) return OK;
    PASS(hvp_gather(r->h, &r->b, HVP_EMBED, e));
    for (int64_t j = 0; j < r->b.k; j++) {
        struct hvp_outer v;
        hvp_params_outer(r->h, r->b.v[j], &v);
        hvp_embed(r->h, v.p[OUTER_EMBED], hvp_tangent_level(r->s, j, 0, 0));
    }
    return OK;
}

/* What follows the last layer; leaves the loss of all ranks in r->loss. */
static enum status run_head(struct hvp_call *r, struct err *e)
{
    const struct hvp *h = r->h;
    PASS(hvp_gather(h, &r->b, HVP_HEAD, e));
    hvp_clear(h, &r->b, HVP_HEAD);
    PASS(hvp_head(r, e));
    PASS(hvp_reduce(h, &r->b, HVP_HEAD, e));
    space_sum(&h->space, 1, &r->loss);
    NEED(!r->backward || isfinite(r->loss), ERR_NUMERIC,
         "the loss is not finite: a weight is not, or an activation overflows");
    return OK;
}

static enum status run_end(struct hvp_call *r, struct err *e)
{
    struct hvp_outer sum;
    if (r->from > 0) return OK;
    hvp_clear(r->h, &r->b, HVP_EMBED);
    hvp_params_outer(r->h, r->b.g, &sum);
    hvp_embed_back(r->h, r->s->gx, sum.p[OUTER_EMBED]);
    for (int64_t j = 0; j < r->b.k; j++) {
        hvp_params_outer(r->h, r->b.hv[j], &sum);
        hvp_embed_back(r->h, r->s->dgx + j * r->s->T * r->s->C, sum.p[OUTER_EMBED]);
    }
    return hvp_reduce(r->h, &r->b, HVP_EMBED, e);
}

void hvp_zero(real *x, int64_t n)
{
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n; i++) x[i] = 0;
}

static enum status passes(struct hvp_call *r, double *loss, struct err *e)
{
    PASS(run_start(r, e));
    PASS(each_layer(r, false, e));
    PASS(run_head(r, e));
    if (loss) *loss = r->loss;
    if (!r->backward) return OK;
    PASS(each_layer(r, true, e));
    return run_end(r, e);
}

/* Sets the state of a call: the retained one, made if there is none yet, or a new one in
 * *temporary. */
static enum status take_state(struct hvp_call *r, struct hvp_state **temporary, struct err *e)
{
    struct hvp *h = r->h;
    const bool gradient = r->b.g && r->b.k == 0;
    const enum hvp_kept kept = h->keep && r->backward       ? HVP_KEPT_ALL
                               : h->keep_values && gradient ? HVP_KEPT_VALUES
                                                            : HVP_KEPT_NONE;
    struct hvp_state **s = kept ? &h->kept : temporary;
    if (!*s) PASS(hvp_state_open(s, h, r->b.k, r->backward, kept, e));
    r->s = *s;
    r->known = r->s->known && !r->b.g;
    r->s->known = r->known;
    if (kept == HVP_KEPT_ALL && !r->known) r->from = 0; /* the whole state is to be made */
    return OK;
}

static enum status run_one(struct hvp *h, int64_t from, int64_t k, const real *const *v,
                           real *const *hv, real *g, bool backward, double *loss, struct err *e)
{
    enum status st = OK;
    struct hvp_call r = {.h = h, .from = from, .backward = backward};
    struct hvp_state *temporary = NULL;
    if (g) hvp_zero(g, h->space.n);
    for (int64_t j = 0; j < k; j++) hvp_zero(hv[j], h->space.n);
    TRY(hvp_buffers_open(h, k, v, hv, g, &r.b, e));
    TRY(take_state(&r, &temporary, e));
    TRY(passes(&r, loss, e));
    r.s->known = r.s->kept == HVP_KEPT_ALL;
done:
    hvp_buffers_free(&r.b);
    hvp_state_close(&temporary);
    return st;
}

enum status hvp_run(struct hvp *h, int64_t from, int64_t k, const real *const *v, real *const *hv,
                    real *g, bool backward, double *loss, struct err *e)
{
    NEED(h->total > 0, ERR_USAGE, "the loss is a mean over no token: no sequence has two tokens");
    NEED(!h->shared || !h->direction, ERR_USAGE,
         "vectors that are cut over ranks are not moved along");
    NEED(k == 0 || h->m->spec.linears == BITNET_NONE, ERR_USAGE,
         "there are no products with ternary weights");
    NEED(k == 0 || h->z_loss == 0, ERR_USAGE, "there are no products with a z-loss");
    if (!h->keep || k < 2) return run_one(h, from, k, v, hv, g, backward, loss, e);
    for (int64_t j = 0; j < k; j++)
        PASS(run_one(h, from, 1, v + j, hv + j, NULL, backward, loss, e));
    return OK;
}

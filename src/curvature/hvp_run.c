/* One call: the blocks forward, the head, the blocks backward with their activations computed again
 * or, in a state that is kept, with what is there. Blocks are the outer loop, so that their weights
 * are read twice whatever the number of tokens; chunks of sequences the inner one. */
#include "curvature/hvp_engine.h"
#include <math.h>

struct run {
    struct hvp_call c;
    struct hvp_rooms rooms;
    struct hvp_state *s;
    bool known; /* s has values and adjoints from an earlier call: only tangents are missing */
};

/* A block's weights and those of the probes and sums that go with it. */
struct layer {
    int64_t at;
    struct diff_weights w;
};

static real *level(const struct hvp_state *s, real *x, int64_t layer, int64_t row)
{
    return x + ((layer % s->levels) * s->T + row) * s->C;
}

static real *tangent_level(const struct hvp_state *s, int64_t j, int64_t layer, int64_t row)
{
    return level(s, s->dx + j * s->levels * s->T * s->C, layer, row);
}

static struct diff_lane *lane(const struct hvp_state *s, struct diff_lane *lanes, int64_t layer,
                              int64_t chunk)
{
    return &lanes[s->kept ? layer * s->n_chunks + chunk : 0];
}

static struct diff_pass pass_of(struct run *r, const struct layer *l, int64_t chunk, bool again)
{
    struct hvp_state *s = r->s;
    const struct hvp_chunk *c = &s->chunks[chunk];
    struct diff_pass p = {.spec = &r->c.h->m->spec,
                          .program = &r->c.h->program,
                          .layer = l->at,
                          .work = &s->work,
                          .w = &l->w.params,
                          .value = lane(s, s->value, l->at, chunk),
                          .again = again};
    diff_work_cut(&s->work, c->first, c->s1 - c->s0);
    p.value->b[DIFF_X0] = level(s, s->x, l->at, c->row);
    p.value->b[DIFF_X2] = level(s, s->x, l->at + 1, c->row);
    return p;
}

/* The tangents of probe j behind the values of p. */
static void set_tangents(struct run *r, struct diff_pass *p, int64_t chunk, int64_t j,
                         const struct diff_params *v)
{
    struct hvp_state *s = r->s;
    int64_t row = s->chunks[chunk].row;
    p->v = v;
    p->tangent = lane(s, s->tangent, p->layer, chunk);
    p->tangent->b[DIFF_X0] = tangent_level(s, j, p->layer, row);
    p->tangent->b[DIFF_X2] = tangent_level(s, j, p->layer + 1, row);
}

static void layer_forward(struct run *r, const struct layer *l)
{
    for (int64_t c = 0; c < r->s->n_chunks; c++) {
        struct diff_pass p = pass_of(r, l, c, false);
        if (!r->known) diff_run(DIFF_VALUE, &p);
        for (int64_t j = 0; j < r->c.k; j++) {
            struct diff_params v;
            hvp_params(r->c.h, r->c.v[j], l->at, &v);
            set_tangents(r, &p, c, j, &v);
            diff_run(DIFF_TANGENT, &p);
        }
    }
}

/* Adjoints replace those of the block's output in place: the first operation of the way back has
 * read them before the last one writes. */
static void layer_backward(struct run *r, const struct layer *l)
{
    struct hvp_state *s = r->s;
    int64_t TC = s->T * s->C;
    struct diff_params g;
    hvp_params(r->c.h, r->c.g, l->at, &g);
    for (int64_t c = 0; c < s->n_chunks; c++) {
        int64_t at = s->chunks[c].row * s->C;
        struct diff_pass p = pass_of(r, l, c, true);
        if (!s->kept) diff_run(DIFF_VALUE, &p);
        p.adjoint = lane(s, s->adjoint, l->at, c);
        p.adjoint->b[DIFF_X0] = p.adjoint->b[DIFF_X2] = s->gx + at;
        p.g = r->c.g ? &g : NULL;
        if (!r->known) diff_run(DIFF_ADJOINT, &p);
        for (int64_t j = 0; j < r->c.k; j++) {
            struct diff_params v, hv;
            hvp_params(r->c.h, r->c.v[j], l->at, &v);
            hvp_params(r->c.h, r->c.hv[j], l->at, &hv);
            set_tangents(r, &p, c, j, &v);
            if (!s->kept) diff_run(DIFF_TANGENT, &p);
            p.g = &hv;
            p.adjoint_tangent = &s->adjoint_tangent;
            p.adjoint_tangent->b[DIFF_X0] = p.adjoint_tangent->b[DIFF_X2] = s->dgx + j * TC + at;
            diff_run(DIFF_ADJOINT_TANGENT, &p);
        }
    }
}

static enum status each_layer(struct run *r, bool back, struct err *e)
{
    enum status st = OK;
    const struct hvp *h = r->c.h;
    struct layer l = {0};
    for (int64_t i = 0; i < r->s->L; i++) {
        struct diff_params along;
        l.at = back ? r->s->L - 1 - i : i;
        TRY(hvp_bring(h, &r->rooms, l.at, e));
        if (back) hvp_clear(h, &r->rooms, l.at);
        hvp_params(h, h->direction, l.at, &along);
        TRY(diff_weights_load(h->m, l.at, &along, h->step, &l.w, e));
        (back ? layer_backward : layer_forward)(r, &l);
        diff_weights_free(&l.w);
        if (back) TRY(hvp_fold(h, &r->rooms, l.at, e));
    }
done:
    return st;
}

/* The embedding's rows, and their tangents. */
static enum status run_start(struct run *r, struct err *e)
{
    enum status st = OK;
    TRY(hvp_bring(r->c.h, &r->rooms, HVP_EMBED, e));
    if (!r->known) hvp_embed(r->c.h, r->c.outer->p[OUTER_EMBED], r->s->x);
    for (int64_t j = 0; j < r->c.k; j++) {
        struct hvp_outer v;
        hvp_params_outer(r->c.h, r->c.v[j], &v);
        hvp_embed(r->c.h, v.p[OUTER_EMBED], tangent_level(r->s, j, 0, 0));
    }
done:
    return st;
}

/* What stands behind the last layer; leaves the loss of all ranks. */
static enum status run_head(struct run *r, struct err *e)
{
    enum status st = OK;
    const struct hvp *h = r->c.h;
    struct hvp_state *s = r->s;
    r->c.x = level(s, s->x, s->L, 0);
    r->c.dx = level(s, s->dx, s->L, 0);
    r->c.dx_pitch = s->levels * s->T * s->C;
    r->c.gx = s->gx;
    r->c.dgx = s->dgx;
    TRY(hvp_bring(h, &r->rooms, HVP_HEAD, e));
    hvp_clear(h, &r->rooms, HVP_HEAD);
    TRY(hvp_head(&r->c, e));
    TRY(hvp_fold(h, &r->rooms, HVP_HEAD, e));
    space_sum(&h->space, 1, &r->c.loss);
    ENSURE(!r->c.backward || isfinite(r->c.loss), ERR_NUMERIC, "the loss is not finite");
done:
    return st;
}

static enum status run_end(struct run *r, struct err *e)
{
    enum status st = OK;
    struct hvp_outer sum;
    hvp_clear(r->c.h, &r->rooms, HVP_EMBED);
    hvp_params_outer(r->c.h, r->c.g, &sum);
    hvp_embed_back(r->c.h, r->s->gx, sum.p[OUTER_EMBED]);
    for (int64_t j = 0; j < r->c.k; j++) {
        hvp_params_outer(r->c.h, r->c.hv[j], &sum);
        hvp_embed_back(r->c.h, r->s->dgx + j * r->s->T * r->s->C, sum.p[OUTER_EMBED]);
    }
    TRY(hvp_fold(r->c.h, &r->rooms, HVP_EMBED, e));
done:
    return st;
}

void hvp_zero(real *x, int64_t n)
{
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n; i++) x[i] = 0;
}

static enum status passes(struct run *r, double *loss, struct err *e)
{
    enum status st = OK;
    TRY(run_start(r, e));
    TRY(each_layer(r, false, e));
    TRY(run_head(r, e));
    if (loss) *loss = r->c.loss;
    if (!r->c.backward) goto done;
    TRY(each_layer(r, true, e));
    TRY(run_end(r, e));
done:
    return st;
}

/* The state of a call: the one that is kept, made if there is none yet, or `own`. */
static enum status take_state(struct run *r, struct hvp_state **own, struct err *e)
{
    enum status st = OK;
    struct hvp *h = r->c.h;
    bool kept = h->keep && r->c.backward;
    struct hvp_state **s = kept ? &h->kept : own;
    if (!*s) TRY(hvp_state_open(s, h, r->c.k, r->c.backward, kept, e));
    r->s = *s;
    r->known = r->s->known && !r->c.g;
    r->s->known = r->known;
    r->c.outer = &r->s->outer.at;
    r->c.work = &r->s->work;
done:
    return st;
}

static enum status run_one(struct hvp *h, int64_t k, const real *const *v, real *const *hv, real *g,
                           bool backward, double *loss, struct err *e)
{
    enum status st = OK;
    struct run r = {.c = {.h = h, .backward = backward, .k = k}};
    struct hvp_state *own = NULL;
    if (g) hvp_zero(g, h->space.n);
    for (int64_t j = 0; j < k; j++) hvp_zero(hv[j], h->space.n);
    TRY(hvp_rooms_open(h, k, v, hv, g, &r.rooms, e));
    r.c.v = r.rooms.v;
    r.c.hv = r.rooms.hv;
    r.c.g = r.rooms.g;
    TRY(take_state(&r, &own, e));
    TRY(passes(&r, loss, e));
    r.s->known = r.s->kept;
done:
    hvp_rooms_free(&r.rooms);
    hvp_state_close(&own);
    return st;
}

enum status hvp_run(struct hvp *h, int64_t k, const real *const *v, real *const *hv, real *g,
                    bool backward, double *loss, struct err *e)
{
    enum status st = OK;
    ENSURE(h->total > 0, ERR_USAGE, "the loss is a mean over no token: no sequence has two tokens");
    ENSURE(!h->shared || !h->direction, ERR_USAGE,
           "vectors that are cut over ranks are not moved along");
    if (!h->keep || k < 2) {
        TRY(run_one(h, k, v, hv, g, backward, loss, e));
        goto done;
    }
    for (int64_t j = 0; j < k; j++) TRY(run_one(h, 1, v + j, hv + j, NULL, backward, loss, e));
done:
    return st;
}

/* One call: the blocks forward, the head, the blocks backward with their activations computed again
 * (or kept). Blocks are the outer loop, so that their weights are read twice whatever the number of
 * tokens; chunks of sequences the inner one. */
#include "curvature/hvp_engine.h"
#include "util/mem.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Whole sequences [s0, s1) that are worked on together: rows [row, row + tokens). */
struct chunk {
    int64_t s0, s1, row, tokens;
    int64_t *first; // (s1 - s0 + 1) rows relative to `row`, in the call's `first`
};

struct run {
    struct hvp_call c;
    struct hvp_rooms rooms;
    int64_t L, T, C;
    struct chunk *chunks;
    int64_t *first;
    int64_t n_chunks, most_tokens, most_sequences, longest;
    struct diff_work work;
    int64_t levels; /* hidden states kept: L + 1, or 2 when there is no way back */
    real *x, *dx;   // (levels, T, C), (k, levels, T, C) inputs of the blocks
    real *gx, *dgx; // (T, C), (k, T, C) adjoints between the blocks
    bool kept;
    int64_t n_lanes; /* sets of activations: one, or when kept one for each chunk of each block */
    struct diff_lane *value, *tangent; // (n_lanes), (n_lanes, k)
    struct diff_lane adjoint, adjoint_tangent;
};

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static enum status cut(struct run *r, struct err *e)
{
    enum status st = OK;
    const struct sequences *s = r->c.h->s;
    int64_t *first;
    TRY(mem_alloc(&r->chunks, s->n + 1, sizeof *r->chunks, "chunks", e));
    TRY(mem_alloc(&r->first, 2 * s->n + 1, sizeof *r->first, "chunks", e));
    first = r->first;
    for (int64_t s0 = 0, s1; s0 < s->n; s0 = s1) {
        struct chunk c = {.s0 = s0, .row = s->offset[s0], .first = first};
        for (s1 = s0 + 1; s1 < s->n && s->offset[s1 + 1] - c.row <= r->c.h->chunk; s1++) continue;
        c.s1 = s1;
        c.tokens = s->offset[s1] - c.row;
        for (int64_t i = s0; i <= s1; i++) *first++ = s->offset[i] - c.row;
        r->chunks[r->n_chunks++] = c;
        r->most_tokens = most(r->most_tokens, c.tokens);
        r->most_sequences = most(r->most_sequences, s1 - s0);
    }
    for (int64_t i = 0; i < s->n; i++)
        r->longest = most(r->longest, s->offset[i + 1] - s->offset[i]);
done:
    return st;
}

static enum status lanes_init(struct run *r, struct err *e)
{
    enum status st = OK;
    const struct hvp *h = r->c.h;
    const struct spec *s = &h->m->spec;
    bool keep = r->kept = h->keep && r->c.backward;
    int64_t k = r->c.k;
    r->n_lanes = keep ? r->L * r->n_chunks : 1;
    TRY(mem_zero(&r->value, r->n_lanes, sizeof *r->value, "activations of a block", e));
    TRY(mem_zero(&r->tangent, r->n_lanes * k, sizeof *r->tangent, "activations of a block", e));
    for (int64_t i = 0; i < r->n_lanes; i++) {
        int64_t tokens = keep ? r->chunks[i % r->n_chunks].tokens : r->most_tokens;
        TRY(diff_lane_init(&r->value[i], s, &h->program, tokens, true, e));
        for (int64_t j = 0; j < (keep ? k : k > 0); j++)
            TRY(diff_lane_init(&r->tangent[i * k + j], s, &h->program, tokens, false, e));
    }
    if (r->c.backward) TRY(diff_lane_init(&r->adjoint, s, &h->program, r->most_tokens, false, e));
    if (k > 0) TRY(diff_lane_init(&r->adjoint_tangent, s, &h->program, r->most_tokens, false, e));
done:
    return st;
}

static enum status run_init(struct run *r, struct err *e)
{
    enum status st = OK;
    const struct hvp *h = r->c.h;
    int64_t k = r->c.k, P = h->slice.rows, TC;
    r->L = h->m->spec.shape.layers;
    r->C = h->m->spec.shape.hidden;
    r->T = h->s->offset[h->s->n];
    r->levels = r->c.backward ? r->L + 1 : 2;
    TC = r->T * r->C;
    TRY(cut(r, e));
    TRY(hvp_outer_load(h, &r->c.outer, e));
    TRY(diff_work_init(&r->work, h->m, most(r->most_tokens, P), r->most_sequences, r->longest, e));
    TRY(mem_alloc(&r->x, r->levels * TC, sizeof(real), "inputs of the blocks", e));
    TRY(mem_alloc(&r->dx, k * r->levels * TC, sizeof(real), "tangents of the blocks' inputs", e));
    TRY(mem_alloc(&r->gx, r->c.backward ? TC : 0, sizeof(real), "adjoints", e));
    TRY(mem_alloc(&r->dgx, k * TC, sizeof(real), "tangents of adjoints", e));
    TRY(lanes_init(r, e));
    r->c.work = &r->work;
done:
    return st;
}

static void run_free(struct run *r)
{
    for (int64_t i = 0; r->value && i < r->n_lanes; i++) diff_lane_free(&r->value[i]);
    for (int64_t i = 0; r->tangent && i < r->n_lanes * r->c.k; i++) diff_lane_free(&r->tangent[i]);
    diff_lane_free(&r->adjoint);
    diff_lane_free(&r->adjoint_tangent);
    hvp_rooms_free(&r->rooms);
    hvp_outer_free(&r->c.outer);
    diff_work_free(&r->work);
    free(r->chunks);
    free(r->first);
    free(r->x);
    free(r->dx);
    free(r->gx);
    free(r->dgx);
    free(r->value);
    free(r->tangent);
}

/* A block's weights and those of the probes and sums that go with it. */
struct layer {
    int64_t at;
    struct diff_weights w;
};

static real *level(const struct run *r, real *x, int64_t layer, int64_t row)
{
    return x + ((layer % r->levels) * r->T + row) * r->C;
}

static real *tangent_level(const struct run *r, int64_t j, int64_t layer, int64_t row)
{
    return level(r, r->dx + j * r->levels * r->T * r->C, layer, row);
}

static int64_t lane_of(const struct run *r, int64_t layer, int64_t chunk)
{
    return r->kept ? layer * r->n_chunks + chunk : 0;
}

static struct diff_lane *tangent_lane(const struct run *r, int64_t layer, int64_t chunk, int64_t j)
{
    return &r->tangent[lane_of(r, layer, chunk) * r->c.k + (r->kept ? j : 0)];
}

static struct diff_pass pass_of(struct run *r, const struct layer *l, int64_t chunk, bool again)
{
    const struct chunk *c = &r->chunks[chunk];
    struct diff_pass p = {.spec = &r->c.h->m->spec,
                          .program = &r->c.h->program,
                          .layer = l->at,
                          .work = &r->work,
                          .w = &l->w.params,
                          .value = &r->value[lane_of(r, l->at, chunk)],
                          .again = again};
    diff_work_cut(&r->work, c->first, c->s1 - c->s0);
    p.value->b[DIFF_X0] = level(r, r->x, l->at, c->row);
    p.value->b[DIFF_X2] = level(r, r->x, l->at + 1, c->row);
    return p;
}

/* The tangents of probe j behind the values of p. */
static void run_tangents(struct run *r, struct diff_pass *p, int64_t chunk, int64_t j,
                         const struct diff_params *v)
{
    p->v = v;
    p->tangent = tangent_lane(r, p->layer, chunk, j);
    p->tangent->b[DIFF_X0] = tangent_level(r, j, p->layer, r->chunks[chunk].row);
    p->tangent->b[DIFF_X2] = tangent_level(r, j, p->layer + 1, r->chunks[chunk].row);
}

static void layer_forward(struct run *r, const struct layer *l)
{
    for (int64_t c = 0; c < r->n_chunks; c++) {
        struct diff_pass p = pass_of(r, l, c, false);
        diff_values(&p);
        for (int64_t j = 0; j < r->c.k; j++) {
            struct diff_params v;
            hvp_params(r->c.h, r->c.v[j], l->at, &v);
            run_tangents(r, &p, c, j, &v);
            diff_tangents(&p);
        }
    }
}

/* Adjoints replace those of the block's output in place: the first operation of the way back has
 * read them before the last one writes. */
static void layer_backward(struct run *r, const struct layer *l)
{
    int64_t TC = r->T * r->C;
    struct diff_params g;
    hvp_params(r->c.h, r->c.g, l->at, &g);
    for (int64_t c = 0; c < r->n_chunks; c++) {
        int64_t at = r->chunks[c].row * r->C;
        struct diff_pass p = pass_of(r, l, c, true);
        if (!r->kept) diff_values(&p);
        p.adjoint = &r->adjoint;
        p.adjoint->b[DIFF_X0] = p.adjoint->b[DIFF_X2] = r->gx + at;
        p.g = r->c.g ? &g : NULL;
        diff_adjoints(&p);
        for (int64_t j = 0; j < r->c.k; j++) {
            struct diff_params v, hv;
            hvp_params(r->c.h, r->c.v[j], l->at, &v);
            hvp_params(r->c.h, r->c.hv[j], l->at, &hv);
            run_tangents(r, &p, c, j, &v);
            if (!r->kept) diff_tangents(&p);
            p.g = &hv;
            p.adjoint_tangent = &r->adjoint_tangent;
            p.adjoint_tangent->b[DIFF_X0] = p.adjoint_tangent->b[DIFF_X2] = r->dgx + j * TC + at;
            diff_adjoint_tangents(&p);
        }
    }
}

static enum status each_layer(struct run *r, bool back, struct err *e)
{
    enum status st = OK;
    const struct hvp *h = r->c.h;
    struct layer l = {0};
    for (int64_t i = 0; i < r->L; i++) {
        struct diff_params along;
        l.at = back ? r->L - 1 - i : i;
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
    hvp_embed(r->c.h, r->c.outer.at.p[OUTER_EMBED], r->x);
    for (int64_t j = 0; j < r->c.k; j++) {
        struct hvp_outer v;
        hvp_params_outer(r->c.h, r->c.v[j], &v);
        hvp_embed(r->c.h, v.p[OUTER_EMBED], tangent_level(r, j, 0, 0));
    }
done:
    return st;
}

/* What stands behind the last layer; leaves the loss of all ranks. */
static enum status run_head(struct run *r, struct err *e)
{
    enum status st = OK;
    const struct hvp *h = r->c.h;
    r->c.x = level(r, r->x, r->L, 0);
    r->c.dx = level(r, r->dx, r->L, 0);
    r->c.dx_pitch = r->levels * r->T * r->C;
    r->c.gx = r->gx;
    r->c.dgx = r->dgx;
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
    hvp_embed_back(r->c.h, r->gx, sum.p[OUTER_EMBED]);
    for (int64_t j = 0; j < r->c.k; j++) {
        hvp_params_outer(r->c.h, r->c.hv[j], &sum);
        hvp_embed_back(r->c.h, r->dgx + j * r->T * r->C, sum.p[OUTER_EMBED]);
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

enum status hvp_run(struct hvp *h, int64_t k, const real *const *v, real *const *hv, real *g,
                    bool backward, double *loss, struct err *e)
{
    enum status st = OK;
    struct run r = {.c = {.h = h, .backward = backward, .k = k}};
    ENSURE(h->total > 0, ERR_USAGE, "the loss is a mean over no token: no sequence has two tokens");
    ENSURE(!h->shared || !h->direction, ERR_USAGE,
           "vectors that are cut over ranks are not moved along");
    if (g) hvp_zero(g, h->space.n);
    for (int64_t j = 0; j < k; j++) hvp_zero(hv[j], h->space.n);
    TRY(hvp_rooms_open(h, k, v, hv, g, &r.rooms, e));
    r.c.v = r.rooms.v;
    r.c.hv = r.rooms.hv;
    r.c.g = r.rooms.g;
    TRY(run_init(&r, e));
    TRY(run_start(&r, e));
    TRY(each_layer(&r, false, e));
    TRY(run_head(&r, e));
    if (loss) *loss = r.c.loss;
    if (!backward) goto done;
    TRY(each_layer(&r, true, e));
    TRY(run_end(&r, e));
done:
    run_free(&r);
    return st;
}

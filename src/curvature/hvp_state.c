/* Memory of a call: chunks of sequences, hidden states between blocks, activations of blocks. */
#include "curvature/hvp_internal.h"
#include "util/mem.h"
#include "util/num.h"
#include <stdlib.h>

static enum status cut(struct hvp_state *r, const struct hvp *h, struct err *e)
{
    const struct sequences *s = h->s;
    int64_t *first;
    PASS(mem_alloc(&r->chunks, s->n + 1, sizeof *r->chunks, "chunks", e));
    PASS(mem_alloc(&r->first, 2 * s->n + 1, sizeof *r->first, "chunks", e));
    first = r->first;
    for (int64_t s0 = 0, s1; s0 < s->n; s0 = s1) {
        struct hvp_chunk c = {.s0 = s0, .row = s->offset[s0], .first = first};
        for (s1 = s0 + 1; s1 < s->n && s->offset[s1 + 1] - c.row <= h->chunk; s1++) continue;
        c.s1 = s1;
        c.tokens = s->offset[s1] - c.row;
        for (int64_t i = s0; i <= s1; i++) *first++ = s->offset[i] - c.row;
        r->chunks[r->n_chunks++] = c;
        r->max_tokens = max64(r->max_tokens, c.tokens);
        r->max_sequences = max64(r->max_sequences, s1 - s0);
    }
    r->longest = sequences_longest(s);
    return OK;
}

/* One set of lanes for all chunks of all blocks, one after the other. Retained: a set for each
 * chunk of each block; they own only what later passes read, and all borrow the other buffers from
 * the lane of the last pass, which does not read them. */
static enum status lanes_open(struct hvp_state *r, const struct hvp *h, bool backward,
                              struct err *e)
{
    const struct diff_program *p = &h->program;
    const struct diff_set *values = r->kept ? &p->read : &p->inside;
    const struct diff_set *adjoints = r->kept ? &p->adjoint_read : &p->inside;
    struct diff_lane *last = &r->adjoint_tangent, *rest = r->kept ? last : NULL;
    r->n_lanes = r->kept ? r->L * r->n_chunks : 1;
    PASS(mem_zero(&r->value, r->n_lanes, sizeof *r->value, "activations of blocks", e));
    PASS(mem_zero(&r->tangent, r->n_lanes, sizeof *r->tangent, "activations of blocks", e));
    PASS(mem_zero(&r->adjoint, r->n_lanes, sizeof *r->adjoint, "activations of blocks", e));
    if (r->k > 0) PASS(diff_lane_init(last, p, &p->inside, NULL, r->max_tokens, 0, e));
    for (int64_t i = 0; i < r->n_lanes; i++) {
        int64_t tokens = r->kept ? r->chunks[i % r->n_chunks].tokens : r->max_tokens;
        int64_t heads = h->m->spec.shape.heads;
        PASS(diff_lane_init(&r->value[i], p, values, rest, tokens, heads, e));
        if (r->k > 0) PASS(diff_lane_init(&r->tangent[i], p, values, rest, tokens, 0, e));
        if (backward) PASS(diff_lane_init(&r->adjoint[i], p, adjoints, rest, tokens, 0, e));
    }
    return OK;
}

enum status hvp_state_open(struct hvp_state **out, const struct hvp *h, int64_t k, bool backward,
                           bool kept, struct err *e)
{
    enum status st = OK;
    const struct model_shape *m = &h->m->spec.shape;
    struct hvp_state *s;
    TRY(mem_zero(&s, 1, sizeof *s, "the state of a call", e));
    *out = s;
    *s = (struct hvp_state){.kept = kept, .L = m->layers, .C = m->hidden, .k = kept ? 1 : k};
    s->T = h->s->offset[h->s->n];
    s->levels = backward ? s->L + 1 : 2;
    int64_t TC = s->T * s->C;
    TRY(cut(s, h, e));
    TRY(hvp_outer_load(h, &s->outer, e));
    TRY(diff_work_init(&s->work, h->m, max64(s->max_tokens, h->rows), s->max_sequences, s->longest,
                       h->products, e));
    TRY(mem_alloc(&s->x, s->levels * TC, sizeof(real), "inputs of the blocks", e));
    TRY(mem_alloc(&s->dx, s->k * s->levels * TC, sizeof(real), "tangents of the blocks' inputs",
                  e));
    TRY(mem_alloc(&s->gx, backward ? TC : 0, sizeof(real), "adjoints", e));
    if (kept) TRY(hvp_logits_open(&s->logits, m, s->T, min64(h->rows, s->T), e));
    TRY(mem_alloc(&s->dgx, s->k * TC, sizeof(real), "tangents of adjoints", e));
    TRY(lanes_open(s, h, backward, e));
done:
    if (st != OK) hvp_state_close(out);
    return st;
}

void hvp_state_close(struct hvp_state **state)
{
    struct hvp_state *s = *state;
    if (!s) return;
    struct diff_lane *const lanes[] = {s->value, s->tangent, s->adjoint};
    for (int j = 0; j < 3; j++) {
        for (int64_t i = 0; lanes[j] && i < s->n_lanes; i++) diff_lane_free(&lanes[j][i]);
        free(lanes[j]);
    }
    diff_lane_free(&s->adjoint_tangent);
    hvp_outer_free(&s->outer);
    diff_work_free(&s->work);
    free(s->chunks);
    free(s->first);
    free(s->x);
    free(s->dx);
    free(s->gx);
    hvp_logits_close(&s->logits);
    free(s->dgx);
    free(s);
    *state = NULL;
}

/* Memory of a call: chunks of sequences, hidden states between blocks, activations of blocks. */
#include "curvature/hvp_internal.h"
#include "util/mem.h"
#include "util/num.h"

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

static bool of_all(const struct hvp_state *r)
{
    return r->kept == HVP_KEPT_ALL;
}

static int64_t tokens_of(const struct hvp_state *r, int64_t lane, int64_t lanes)
{
    return lanes > 1 || r->n_chunks == 1 ? r->chunks[lane % r->n_chunks].tokens : r->max_tokens;
}

static enum status values_open(struct hvp_state *r, const struct hvp *h,
                               const struct diff_lane *rest, struct err *e)
{
    const struct diff_program *p = &h->program;
    const struct diff_set *set = r->kept ? &p->read : &p->inside;
    r->n_values = r->kept ? r->L * r->n_chunks : 1;
    PASS(mem_zero(&r->value, r->n_values, sizeof *r->value, "activations of blocks", e));
    for (int64_t i = 0; i < r->n_values; i++)
        PASS(diff_lane_init(&r->value[i], p, set, rest, tokens_of(r, i, r->n_values),
                            h->m->spec.shape.heads, e));
    return OK;
}

/* One set of lanes for all chunks of all blocks, one after the other. Retained: a set for each
 * chunk of each block; they own only what later passes read, and all borrow the other buffers from
 * the lane of the last pass, which does not read them; where only values are retained, from that of
 * adjoints.
 */
static enum status lanes_open(struct hvp_state *r, const struct hvp *h, bool backward,
                              struct err *e)
{
    const struct diff_program *p = &h->program;
    const struct diff_set *tangents = of_all(r) ? &p->read : &p->inside;
    const struct diff_set *adjoints = of_all(r) ? &p->adjoint_read : &p->inside;
    struct diff_lane *last = &r->adjoint_tangent, *rest = of_all(r) ? last : NULL;
    r->n_lanes = of_all(r) ? r->L * r->n_chunks : 1;
    PASS(mem_zero(&r->tangent, r->n_lanes, sizeof *r->tangent, "activations of blocks", e));
    PASS(mem_zero(&r->adjoint, r->n_lanes, sizeof *r->adjoint, "activations of blocks", e));
    if (r->k > 0) PASS(diff_lane_init(last, p, &p->inside, NULL, r->max_tokens, 0, e));
    for (int64_t i = 0; i < r->n_lanes; i++) {
        const int64_t tokens = tokens_of(r, i, r->n_lanes);
        if (r->k > 0) PASS(diff_lane_init(&r->tangent[i], p, tangents, rest, tokens, 0, e));
        if (backward) PASS(diff_lane_init(&r->adjoint[i], p, adjoints, rest, tokens, 0, e));
    }
    return values_open(r, h, r->kept == HVP_KEPT_VALUES ? r->adjoint : rest, e);
}

enum status hvp_state_open(struct hvp_state **out, const struct hvp *h, int64_t k, bool backward,
                           enum hvp_kept kept, struct err *e)
{
    enum status st = OK;
    const struct model_shape *m = &h->m->spec.shape;
    struct hvp_state *s;
    TRY(mem_zero(&s, 1, sizeof *s, "the state of a call", e));
    *out = s;
    *s = (struct hvp_state){
        .kept = kept, .L = m->layers, .C = m->hidden, .k = kept == HVP_KEPT_ALL ? 1 : k};
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
    if (kept == HVP_KEPT_ALL) TRY(hvp_logits_open(&s->logits, m, s->T, min64(h->rows, s->T), e));
    if (kept == HVP_KEPT_VALUES) TRY(hvp_logits_open(&s->logits, m, min64(h->rows, s->T), 0, e));
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
    const int64_t n[] = {s->n_values, s->n_lanes, s->n_lanes};
    for (int j = 0; j < 3; j++) {
        for (int64_t i = 0; lanes[j] && i < n[j]; i++) diff_lane_free(&lanes[j][i]);
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

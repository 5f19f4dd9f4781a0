/* Distributed vectors: gathers the numbers of a unit (a layer, or one end of the model) into a
 * buffer per vector, and reduces the ranks' sums in the buffers to the ranks that hold them. */
#include "curvature/hvp_internal.h"
#include "curvature/vector.h"
#include "util/mem.h"

enum status hvp_buffers_open(const struct hvp *h, int64_t k, const real *const *v, real *const *hv,
                             real *g, struct hvp_buffers *out, struct err *e)
{
    *out = (struct hvp_buffers){.k = k, .v = v, .hv = hv, .g = g};
    if (!h->shared) return OK;
    PASS(vectors_alloc(&out->v_buffer, k, h->buffer, sizeof(real), "tangents of a layer", e));
    PASS(vectors_alloc(&out->hv_buffer, k, h->buffer, sizeof(real), "products of a layer", e));
    if (g) PASS(mem_alloc(&out->g_buffer, h->buffer, sizeof(real), "a layer's gradient", e));
    out->v = (const real *const *)out->v_buffer;
    out->hv = out->hv_buffer;
    out->g = out->g_buffer;
    out->v_here = v;
    out->hv_here = hv;
    out->g_here = g;
    return OK;
}

void hvp_buffers_free(struct hvp_buffers *b)
{
    vectors_free(b->v_buffer, b->k);
    vectors_free(b->hv_buffer, b->k);
    free(b->g_buffer);
}

static bool belongs(const struct hvp *h, int64_t tensor, int64_t unit)
{
    bool table = h->entries[tensor].slot.index == OUTER_EMBED;
    if (unit >= 0) return true;
    return unit == HVP_EMBED ? table : !table || h->m->spec.shape.tied;
}

/* A run of numbers that is contiguous in the whole vector and in a buffer. */
struct span {
    int64_t first, at, n;
};

/* The unit's next span; false after the last. *next: index of its next tensor, 0 at first. */
static bool next_span(const struct hvp *h, int64_t unit, int64_t *next, struct span *out)
{
    int64_t layer = unit < 0 ? -1 : unit;
    int64_t i = h->layer_at[layer + 1] + *next, end = h->layer_at[layer + 2];
    while (i < end && !belongs(h, h->by_layer[i], unit)) i++;
    *out = (struct span){0};
    for (; i < end && belongs(h, h->by_layer[i], unit); i++) {
        const struct hvp_entry *t = &h->entries[h->by_layer[i]];
        int64_t first = t->tensor.offset;
        if (out->n == 0) *out = (struct span){first, t->at, 0};
        if (first != out->first + out->n || t->at != out->at + out->n) break;
        out->n += t->tensor.elements;
    }
    *next = i - h->layer_at[layer + 1];
    return out->n > 0;
}

enum status hvp_gather(const struct hvp *h, const struct hvp_buffers *b, int64_t unit,
                       struct err *e)
{
    const struct hvp_share *from = &h->share;
    struct span s;
    for (int64_t j = 0; h->shared && j < b->k; j++)
        for (int64_t next = 0; next_span(h, unit, &next, &s);)
            PASS(from->gather(from->context, s.first, s.n, b->v_here[j], b->v_buffer[j] + s.at, e));
    return OK;
}

void hvp_clear(const struct hvp *h, const struct hvp_buffers *b, int64_t unit)
{
    struct span s;
    for (int64_t next = 0; h->shared && next_span(h, unit, &next, &s);) {
        for (int64_t j = 0; j < b->k; j++) hvp_zero(b->hv_buffer[j] + s.at, s.n);
        if (b->g_buffer) hvp_zero(b->g_buffer + s.at, s.n);
    }
}

enum status hvp_reduce(const struct hvp *h, const struct hvp_buffers *b, int64_t unit,
                       struct err *e)
{
    const struct hvp_share *to = &h->share;
    struct span s;
    for (int64_t next = 0; h->shared && next_span(h, unit, &next, &s);) {
        for (int64_t j = 0; j < b->k; j++)
            PASS(to->reduce(to->context, s.first, s.n, b->hv_buffer[j] + s.at, b->hv_here[j], e));
        if (b->g_buffer)
            PASS(to->reduce(to->context, s.first, s.n, b->g_buffer + s.at, b->g_here, e));
    }
    return OK;
}

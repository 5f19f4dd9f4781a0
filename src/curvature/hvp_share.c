/* Vectors cut over ranks. What a pass works on at a time, a layer or one end of the model (a unit),
 * comes whole into one room for each vector, and partial sums leave it to where they are kept. */
#include "curvature/hvp_engine.h"
#include "util/mem.h"
#include <stdlib.h>
#include <string.h>

enum status hvp_rooms_open(const struct hvp *h, int64_t k, const real *const *v, real *const *hv,
                           real *g, struct hvp_rooms *out, struct err *e)
{
    enum status st = OK;
    *out = (struct hvp_rooms){.k = k, .v = v, .hv = hv, .g = g};
    if (!h->shared) return OK;
    TRY(mem_zero(&out->v_room, k, sizeof *out->v_room, "tangents of a layer", e));
    TRY(mem_zero(&out->hv_room, k, sizeof *out->hv_room, "products of a layer", e));
    for (int64_t j = 0; j < k; j++) {
        TRY(mem_alloc(&out->v_room[j], h->room, sizeof(real), "tangents of a layer", e));
        TRY(mem_alloc(&out->hv_room[j], h->room, sizeof(real), "products of a layer", e));
    }
    if (g) TRY(mem_alloc(&out->g_room, h->room, sizeof(real), "the gradient of a layer", e));
    out->v = (const real *const *)out->v_room;
    out->hv = out->hv_room;
    out->g = out->g_room;
    out->v_here = v;
    out->hv_here = hv;
    out->g_here = g;
done:
    return st;
}

void hvp_rooms_free(struct hvp_rooms *r)
{
    for (int64_t j = 0; r->v_room && j < r->k; j++) free(r->v_room[j]);
    for (int64_t j = 0; r->hv_room && j < r->k; j++) free(r->hv_room[j]);
    free(r->v_room);
    free(r->hv_room);
    free(r->g_room);
}

static bool belongs(const struct hvp *h, int64_t tensor, int64_t unit)
{
    bool table = h->places[tensor].slot.index == OUTER_EMBED;
    if (unit >= 0) return true;
    return unit == HVP_EMBED ? table : !table || h->m->spec.shape.tied;
}

/* Numbers that follow each other in the whole vector and in a room. */
struct span {
    int64_t at, room, n;
};

/* The unit's next span; *next counts its tensors, 0 at first. */
static bool take_span(const struct hvp *h, int64_t unit, int64_t *next, struct span *out)
{
    int64_t layer = unit < 0 ? -1 : unit;
    int64_t i = h->layer_at[layer + 1] + *next, end = h->layer_at[layer + 2];
    while (i < end && !belongs(h, h->by_layer[i], unit)) i++;
    *out = (struct span){0};
    for (; i < end && belongs(h, h->by_layer[i], unit); i++) {
        int64_t t = h->by_layer[i], at = h->tensors[t].offset, room = h->places[t].room;
        if (out->n == 0) *out = (struct span){at, room, 0};
        if (at != out->at + out->n || room != out->room + out->n) break;
        out->n += h->tensors[t].elements;
    }
    *next = i - h->layer_at[layer + 1];
    return out->n > 0;
}

enum status hvp_bring(const struct hvp *h, const struct hvp_rooms *r, int64_t unit, struct err *e)
{
    enum status st = OK;
    struct span s;
    for (int64_t j = 0; h->shared && j < r->k; j++)
        for (int64_t next = 0; take_span(h, unit, &next, &s);)
            TRY(h->share.bring(h->share.context, s.at, s.n, r->v_here[j], r->v_room[j] + s.room,
                               e));
done:
    return st;
}

void hvp_clear(const struct hvp *h, const struct hvp_rooms *r, int64_t unit)
{
    struct span s;
    if (!h->shared) return;
    for (int64_t next = 0; take_span(h, unit, &next, &s);) {
        for (int64_t j = 0; j < r->k; j++) hvp_zero(r->hv_room[j] + s.room, s.n);
        if (r->g_room) hvp_zero(r->g_room + s.room, s.n);
    }
}

enum status hvp_fold(const struct hvp *h, const struct hvp_rooms *r, int64_t unit, struct err *e)
{
    enum status st = OK;
    const struct hvp_share *to = &h->share;
    struct span s;
    for (int64_t next = 0; h->shared && take_span(h, unit, &next, &s);) {
        for (int64_t j = 0; j < r->k; j++)
            TRY(to->fold(to->context, s.at, s.n, r->hv_room[j] + s.room, r->hv_here[j], e));
        if (r->g_room) TRY(to->fold(to->context, s.at, s.n, r->g_room + s.room, r->g_here, e));
    }
done:
    return st;
}

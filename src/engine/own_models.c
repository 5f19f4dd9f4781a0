/* Streams that have an embedding, norms and a head of their own: stored and rotated variants. */
#include "engine/stored.h"
#include "model/rotated.h"

struct model *stream_model(const struct run *r, const struct stream *s)
{
    if (s->stored && s->stored->model) return s->stored->model;
    return s->turned ? s->turned : r->model;
}

/* One whose grids do not fit the model fails alone. */
static void check_grids(struct run *r)
{
    for (int64_t i = 0; i < r->n; i++) {
        struct stream *s = &r->streams[i];
        if (s->st == OK)
            s->st = model_check_grids(model_shape(stream_model(r, s)), &s->variant->method.grids,
                                      &s->err);
    }
}

/* The bases of variants; one that the model does not admit fails alone. */
static enum status open_turned(struct run *r, struct err *e)
{
    for (int64_t i = 0; i < r->n; i++) {
        struct stream *s = &r->streams[i];
        const struct method_entry *m = &s->variant->method;
        const unsigned places = method_entry_places(m);
        if (!places || s->st != OK) continue;
        s->st = group_agree(
            r->group,
            model_rotate(r->model, places, (uint64_t)m->rotation_seed, &s->turned, &s->err),
            &s->err);
        if (s->st == ERR_NOMEM) RAISE(s->st, "%s", s->err.text);
    }
    return OK;
}

/* What the paths of variants name; one that cannot be opened fails alone. */
static enum status open_stored(struct run *r, struct err *e)
{
    for (int64_t i = 0; i < r->n; i++) {
        struct stream *s = &r->streams[i];
        if (s->method != &quant_stored) continue;
        s->st = group_agree(r->group, stored_open(r, s, &s->err), &s->err);
        if (s->st == ERR_NOMEM) RAISE(s->st, "%s", s->err.text);
    }
    return OK;
}

enum status own_models_open(struct run *r, struct err *e)
{
    PASS(open_stored(r, e));
    PASS(open_turned(r, e));
    check_grids(r);
    return OK;
}

void own_models_close(struct stream *s)
{
    stored_close(s->stored);
    model_close(s->turned);
}

/* Streams that have an embedding, norms and a head of their own: stored and rotated variants. */
#include "curvature/rotation_learn.h"
#include "engine/pace.h"
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

/* The visit goes on, although no share of it is known to be done. */
static void stepped(void *pace)
{
    pace_step(pace, 0);
}

static enum status turn(const struct run *r, const struct variant *v, struct model **out,
                        struct err *e)
{
    const struct method_entry *m = &v->method;
    struct quant_options rounding = m->options;
    rounding.outlier_columns = rounding.lqer_rank = 0;
    rounding.mixing = MIXING_NONE;
    const struct rotation_recipe how = {.steps = m->rotation_steps,
                                        .sequences = m->rotation_sequences,
                                        .rate = m->rotation_rate,
                                        .bits = v->bits,
                                        .options = &rounding,
                                        .stepped = stepped,
                                        .context = r->pace};
    PASS(model_rotate(r->model, method_entry_places(m), (uint64_t)m->rotation_seed, out, e));
    if (how.steps == 0) return OK;
    return rotation_learn(r->model, *out, r->inputs.calibration, &how, e);
}

/* The basis of another replicate of the variant; NULL: there is none. */
static struct model *turned_already(const struct run *r, int64_t i)
{
    for (int64_t j = 0; j < i; j++)
        if (r->streams[j].st == OK && same_variant(r->streams[i].variant, r->streams[j].variant))
            return r->streams[j].turned;
    return NULL;
}

/* The bases of variants; one that the model does not admit fails alone. */
static enum status open_turned(struct run *r, struct err *e)
{
    for (int64_t i = 0; i < r->n; i++) {
        struct stream *s = &r->streams[i];
        if (!method_entry_places(&s->variant->method) || s->st != OK) continue;
        s->turned = turned_already(r, i);
        s->borrows = s->turned != NULL;
        if (s->borrows) continue;
        s->st = group_agree(r->group, turn(r, s->variant, &s->turned, &s->err), &s->err);
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
    if (!s->borrows) model_close(s->turned);
}

/* Runs a block on a range of evaluation states stage by stage, and shows what it computes to the
 * measures that look at it. */
#include "engine/observe.h"
#include "engine/visit_internal.h"

bool visit_observes(const struct visit *v)
{
    bool any = false;
    for (int i = 0; i < MEASURES_N; i++) any = any || (measures[i]->observe && visit_wants(v, i));
    return any;
}

int64_t visit_observing(const struct visit *v, const struct model_sizes *m,
                        const struct memory_sequences *s, int64_t threads)
{
    int64_t bytes = 0;
    for (int i = 0; i < MEASURES_N; i++)
        if (measures[i]->observe && visit_wants(v, i))
            bytes += measures[i]->observing(m, s, threads);
    return bytes;
}

static enum status show(const struct run *r, const struct observed *o, bool end, struct err *e)
{
    struct part_context *c = (struct part_context *)(uintptr_t)r->context;
    for (int i = 0; i < MEASURES_N; i++) {
        if (!measures[i]->observe || !visit_wants(c->visit, i)) continue;
        PASS((end ? measures[i]->observed : measures[i]->observe)(c, o, e));
    }
    return OK;
}

static enum status show_heads(struct workspace *w, struct observed o, struct err *e)
{
    o.heads = w->sizes.shape.kv_heads;
    o.columns = w->sizes.shape.head_dim;
    for (o.site = SITE_KEYS; o.site <= SITE_VALUES; o.site++) {
        model_keys(w->model, &w->acts, o.site == SITE_VALUES, &o.x, &o.pitch, &o.stride);
        PASS(show(w->observed, &o, false, e));
    }
    return OK;
}

enum status observe_range(struct workspace *w, const struct block *b, const struct range *r,
                          float *x, struct err *e)
{
    const struct run *run = w->observed;
    const struct sequences *s = &r->view;
    struct observed o = {.block = b->layer,
                         .inputs = &run->inputs,
                         .heads = 1,
                         .s = s,
                         .first = run->first + r->first};
    for (o.site = 0; o.site < STAGE_N; o.site++) {
        model_stage_input(w->model, b, o.site, s, 0, s->n, x, &w->acts);
        o.x = w->acts.in;
        o.pitch = o.columns = w->sizes.cols[o.site];
        PASS(show(run, &o, false, e));
        model_stage_output(w->model, b, o.site, s, 0, s->n, x, &w->acts);
        if (o.site == STAGE_QKV) PASS(show_heads(w, o, e));
    }
    o.site = SITE_RESIDUAL;
    o.x = x;
    o.pitch = o.columns = w->sizes.shape.hidden;
    return show(run, &o, false, e);
}

enum status observe_end(struct workspace *w, const struct block *b, struct err *e)
{
    const struct observed o = {.block = b->layer, .inputs = &w->observed->inputs};
    return show(w->observed, &o, true, e);
}

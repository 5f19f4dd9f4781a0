/* The first part of a visit: runs the checkpoint and its variants through the blocks and the head.
 */
#include "visit/visit_internal.h"

struct cells {
    struct run run;
    struct weights_sink sink;
};

static bool wanted(const struct visit *v)
{
    return !v->task[PART_SURFACE] && (!v->cells_only || v->n_variants > 0);
}

/* Records of failed variants need the variants too. */
static enum status open_cells(struct part_context *c, struct err *e)
{
    struct cells *s = c->state[PART_CELLS];
    s->sink = (struct weights_sink){c, parts_linear};
    PASS(walk_init(&s->run, c, c->visit, c->model, e));
    s->run.sink = &s->sink;
    return OK;
}

static enum status run(struct part_context *c, struct err *e)
{
    struct run *r = &((struct cells *)c->state[PART_CELLS])->run;
    PASS(walk_prepare(r, e));
    c->provenance.memory_planned = walk_planned(r);
    PASS(group_agree(c->group, parts_begin(c, e), e));
    return walk_go(r, e);
}

static enum status emit(struct part_context *c, const struct err *failure, struct err *e)
{
    const struct cells *s = c->state[PART_CELLS];
    if (!c->visit->cells_only) PASS(part_emit(c, record_checkpoint(c, &s->run, failure), e));
    for (int64_t i = 0; i < s->run.n; i++)
        PASS(part_emit(c, record_cell(c, &s->run, i, failure), e));
    return OK;
}

static void close_cells(struct part_context *c)
{
    walk_free(&((struct cells *)c->state[PART_CELLS])->run);
}

const struct part cells_part = {
    .name = "cells",
    .of_model = true,
    .wanted = wanted,
    .state = sizeof(struct cells),
    .open = open_cells,
    .run = run,
    .emit = emit,
    .close = close_cells,
};

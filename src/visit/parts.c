/* The table of a visit's parts, and the loops over it. */
#include "measure/curvature.h"
#include "measure/movement.h"
#include "measure/second_order.h"
#include "measure/surface.h"
#include "visit/visit_internal.h"

static const struct part *const table[PART_N] = {
    [PART_CELLS] = &cells_part,
    [PART_EXPORT] = &export_part,
    [PART_SECOND_ORDER] = &second_order_part,
    [PART_CURVATURE] = &curvature_part,
    [PART_MOVEMENT] = &movement_part,
    [PART_SURFACE] = &surface_part,
};

const struct part *visit_part(int i)
{
    return table[i];
}

bool visit_wants(const struct visit *v, int i)
{
    return table[i]->wanted ? table[i]->wanted(v) : v->task[i] != NULL;
}

/* Whether the part wants the weights of a variant. */
static bool part_takes(int i, const struct variant *v)
{
    return table[i]->of_cells ? variant_is_completed(v) : v->replicate == 0;
}

enum status parts_begin(struct part_context *c, struct err *e)
{
    for (int i = 0; i < PART_N; i++)
        if (table[i]->begin && visit_wants(c->visit, i)) PASS(table[i]->begin(c, e));
    return OK;
}

enum status parts_linear(void *context, const struct variant *v, const struct linear *l,
                         const float *q, const struct quant_grids *grids, struct err *e)
{
    struct part_context *c = context;
    const struct quant_method *method = quant_find(v->method.method);
    for (int i = 0; i < PART_N; i++) {
        if (!table[i]->linear || !visit_wants(c->visit, i) || !part_takes(i, v)) continue;
        PASS(quant_check_weights(method, table[i]->name, e));
        PASS(table[i]->linear(c, v, l, q, grids, e));
    }
    if (!c->hooks->weights) return OK;
    PASS(quant_check_weights(method, "weights", e));
    return c->hooks->weights(c->hooks->context, v, l, q, grids, e);
}

void parts_move(const struct part_context *c, const struct variant *v, struct saved_move *m)
{
    struct part_context *own = (struct part_context *)(uintptr_t)c;
    for (int i = 0; i < PART_N; i++)
        if (table[i]->move && visit_wants(c->visit, i) && part_takes(i, v))
            table[i]->move(own, v, m);
}

bool parts_complete(const struct visit *v)
{
    for (int i = 0; i < PART_N; i++)
        if (table[i]->of_cells && visit_wants(v, i)) return true;
    return false;
}

void parts_annotate(const struct part_context *c, const struct variant *v,
                    const struct err *failure, json_t *record)
{
    for (int i = 0; i < PART_N; i++)
        if (table[i]->annotate && visit_wants(c->visit, i))
            table[i]->annotate(c, v, failure, record);
}

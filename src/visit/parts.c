/* The loops over the measures that a visit does. */
#include "visit/visit_internal.h"

bool visit_wants(const struct visit *v, int i)
{
    return measures[i]->wanted ? measures[i]->wanted(v) : v->task[i] != NULL;
}

/* Whether the part wants the weights of a variant. */
static bool part_takes(int i, const struct variant *v)
{
    return measures[i]->of_cells ? variant_is_completed(v) : v->replicate == 0;
}

enum status parts_begin(struct part_context *c, struct err *e)
{
    for (int i = 0; i < MEASURES_N; i++)
        if (measures[i]->begin && visit_wants(c->visit, i)) PASS(measures[i]->begin(c, e));
    return OK;
}

enum status parts_linear(void *context, const struct variant *v, const struct linear *l,
                         const float *q, const struct quant_grids *grids, struct err *e)
{
    struct part_context *c = context;
    const struct quant_method *method = quant_find(v->method.method);
    for (int i = 0; i < MEASURES_N; i++) {
        if (!measures[i]->linear || !visit_wants(c->visit, i) || !part_takes(i, v)) continue;
        PASS(quant_check_weights(method, measures[i]->name, e));
        PASS(measures[i]->linear(c, v, l, q, grids, e));
    }
    if (!c->hooks->weights) return OK;
    PASS(quant_check_weights(method, "weights", e));
    return c->hooks->weights(c->hooks->context, v, l, q, grids, e);
}

void parts_move(const struct part_context *c, const struct variant *v, struct saved_move *m)
{
    struct part_context *own = (struct part_context *)(uintptr_t)c;
    for (int i = 0; i < MEASURES_N; i++)
        if (measures[i]->move && visit_wants(c->visit, i) && part_takes(i, v))
            measures[i]->move(own, v, m);
}

bool parts_complete(const struct visit *v)
{
    for (int i = 0; i < MEASURES_N; i++)
        if (measures[i]->of_cells && visit_wants(v, i)) return true;
    return false;
}

void parts_annotate(const struct part_context *c, const struct variant *v,
                    const struct err *failure, json_t *record)
{
    for (int i = 0; i < MEASURES_N; i++)
        if (measures[i]->annotate && visit_wants(c->visit, i))
            measures[i]->annotate(c, v, failure, record);
}

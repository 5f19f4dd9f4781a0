#include "measure/second_order.h"
#include "checkpoint/derived.h"
#include "measure/second_order_files.h"
#include "measure/weights_file.h"
#include "util/mem.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- tasks as text --- */

void second_order_task_free(struct second_order_task *t)
{
    if (!t) return;
    data_options_free(&t->data);
    free(t->previous);
    free(t->identity);
    free(t);
}

json_t *second_order_task_to_json(const struct second_order_task *t)
{
    return json_pack("{s:i, s:b, s:s*, s:o, s:s, s:I, s:f}", "depth", t->depth, "critical",
                     t->critical, "previous", t->previous, "data", data_options_to_json(&t->data),
                     "identity", t->identity, "together", (json_int_t)t->together, "memory",
                     t->memory);
}

enum status second_order_task_from_json(const json_t *json, struct second_order_task **out,
                                        struct err *e)
{
    enum status st = OK;
    struct second_order_task *t = NULL;
    const char *previous = json_text(json, "previous", NULL);
    TRY(mem_zero(&t, 1, sizeof *t, "a task", e));
    t->depth = (int)json_integer_value(json_object_get(json, "depth"));
    t->critical = json_is_true(json_object_get(json, "critical"));
    if (previous) TRY(mem_string(&t->previous, previous, e));
    t->together = json_integer_value(json_object_get(json, "together"));
    t->memory = json_number_value(json_object_get(json, "memory"));
    TRY(data_options_from_json(json_object_get(json, "data"), &t->data, e));
    TRY(mem_string(&t->identity, json_text(json, "identity", ""), e));
    *out = t;
    t = NULL;
done:
    second_order_task_free(t);
    return st;
}

void second_order_result_free(struct second_order_result *r)
{
    for (int64_t i = 0; i < r->n_tensors; i++) free(r->names[i]);
    free(r->names);
    free(r->failure);
    prediction_free(&r->prediction);
    *r = (struct second_order_result){0};
}

/* --- the variants' weights on scratch --- */

static enum status emit(void *context, const json_t *record, struct err *e)
{
    const struct visit_hooks *outer = ((struct second_order *)context)->outer;
    return outer->emit(outer->context, record, e);
}

static bool should_stop(void *context)
{
    const struct visit_hooks *outer = ((struct second_order *)context)->outer;
    return outer->should_stop && outer->should_stop(outer->context);
}

static enum status hidden(void *context, const struct model *m, const struct sequences *s,
                          const float *x, struct err *e)
{
    const struct visit_hooks *outer = ((struct second_order *)context)->outer;
    return outer->hidden(outer->context, m, s, x, e);
}

static enum status weights(void *context, const struct variant *v, const struct linear *l,
                           const float *q, struct err *e)
{
    enum status st = OK;
    struct second_order *s = context;
    struct spill *spill = &s->spills[v - s->visit->variants];
    if (spill->out) TRY(safetensors_append(spill->out, q, l->rows * l->cols, e));
    spill->linears++;
    if (s->outer->weights) TRY(s->outer->weights(s->outer->context, v, l, q, e));
done:
    return st;
}

static bool writes(const struct second_order *s)
{
    return s->group->node_rank == 0;
}

/* The name of the node's file of variant i, from the rank that writes it. */
static enum status name_file(struct second_order *s, int64_t i, struct err *e)
{
    enum status st = OK;
    struct spill *spill = &s->spills[i];
    const struct visit_group *g = s->group;
    st = writes(s) ? weights_file_scratch(s->visit, i, &spill->path, e) : OK;
    TRY(group_agree(g, st, e));
    int length = spill->path ? (int)strlen(spill->path) + 1 : 0;
    if (g->node_size > 1) MPI_Bcast(&length, 1, MPI_INT, 0, g->node);
    if (!writes(s)) st = mem_zero(&spill->path, length, 1, "a file's name", e);
    TRY(group_agree(g, st, e)); /* a rank that is alone on its node meets the others too */
    if (g->node_size > 1) MPI_Bcast(spill->path, length, MPI_CHAR, 0, g->node);
done:
    return st;
}

static enum status create_files(struct second_order *s, struct err *e)
{
    enum status st = OK;
    for (; s->n < s->visit->n_variants; s->n++) {
        struct spill *spill = &s->spills[s->n];
        TRY(name_file(s, s->n, e));
        if (writes(s))
            st = weights_file_create(s->base, spill->path, &s->n_linears, &spill->out, e);
        TRY(group_agree(s->group, st, e));
    }
    s->n_linears = group_max(s->group, s->n_linears);
done:
    return st;
}

static enum status prepare(const struct visit *v, struct second_order **out, struct err *e)
{
    enum status st = OK;
    struct second_order *s = NULL;
    TRY(mem_zero(&s, 1, sizeof *s, "quantized weights", e));
    s->visit = v;
    TRY(mem_zero(&s->spills, v->n_variants, sizeof *s->spills, "quantized weights", e));
    *out = s;
    s = NULL;
done:
    free(s);
    return st;
}

enum status second_order_open(const struct visit *v, const struct checkpoint *c,
                              const struct visit_hooks *hooks, const struct visit_group *group,
                              bool may_stop, struct second_order **out, struct err *e)
{
    enum status st = OK;
    struct second_order *s = NULL;
    st = prepare(v, &s, e);
    if (s) s->group = group;
    TRY(group_agree(group, st, e));
    s->may_stop = may_stop;
    s->base = c;
    s->outer = hooks;
    s->own = (struct visit_hooks){.context = s,
                                  .emit = emit,
                                  .should_stop = should_stop,
                                  .weights = weights,
                                  .hidden = hooks->hidden ? hidden : NULL};
    TRY(create_files(s, e));
    *out = s;
    s = NULL;
done:
    second_order_close(s);
    return st;
}

const struct visit_hooks *second_order_hooks(const struct second_order *s)
{
    return &s->own;
}

void second_order_close(struct second_order *s)
{
    if (!s) return;
    for (int64_t i = 0; s->spills && i < s->visit->n_variants; i++) {
        struct spill *spill = &s->spills[i];
        checkpoint_close(spill->quantized);
        safetensors_out_close(spill->out);
        if (spill->path && writes(s)) unlink(spill->path);
        free(spill->path);
    }
    free(s->spills);
    free(s);
}

enum status second_order_quantized(struct second_order *s, struct spill *spill, struct err *e)
{
    enum status st = spill->out ? safetensors_commit(spill->out, e) : OK;
    safetensors_out_close(spill->out);
    spill->out = NULL;
    TRY(group_agree(s->group, st, e));
    st = checkpoint_overlay(s->base, spill->path, &spill->quantized, e);
    TRY(group_agree(s->group, st, e)); /* all have it open */
    if (writes(s)) unlink(spill->path);
    free(spill->path);
    spill->path = NULL;
done:
    return st;
}

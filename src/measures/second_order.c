/* The second-order measure: its keys, what it costs, the spills of weights, its records. */
#include "checkpoint/derived.h"
#include "engine/stamp.h"
#include "engine/weights.h"
#include "measures/curvature.h"
#include "measures/second_order_internal.h"
#include "plan/plan.h"
#include "util/mem.h"
#include "util/num.h"
#include "util/temporary.h"
#include <math.h>
#include <stdio.h>

/* In the order of enum second_order_depth. */
static const char *const depths[] = {"none", "total", "layers", NULL};

static const struct option keys[] = {
    OPTION_AT(
        "second_order", second_order_options, depth, CHOICE,
        "predict the change of loss of every cell from gradient and Hessian, with one product "
        "per cell (total), and one more per layer (layers)",
        .fallback = "none", .choices = depths),
    OPTION(second_order_options, critical, BOOL,
           "critical sharpness, from forward passes only: of each checkpoint along the direction "
           "from the previous one, of each cell along the change of its weights",
           .fallback = "false"),
};
const struct option_table second_order_table = {OPTION_ROWS(keys, second_order_options)};

static const struct option fields[] = {
    OPTION(second_order_setup, depth, CHOICE, "", .required = true, .choices = depths),
    OPTION(second_order_setup, critical, BOOL, ""),
    OPTION(second_order_setup, previous, GROUP, "", .table = &weights_table),
    OPTION(second_order_setup, data, GROUP, "", .table = &data_table),
    OPTION(second_order_setup, identity, TEXT, "", .required = true),
    OPTION(second_order_setup, together, INT, "", OPTION_ANY_INT),
    OPTION(second_order_setup, memory, REAL, "", OPTION_ANY_REAL),
};
static const struct option_table setup_table = {OPTION_ROWS(fields, second_order_setup)};

/* What a finished prediction depends on besides its cell. */
static enum status key(struct plan *p, const struct plan_checkpoint *c, json_t **own, struct err *e)
{
    const struct second_order_options *s = &curvature_section(p->sweep)->predicted;
    const struct data_options data = curvature_text(p, c->model);
    json_t *text;
    *own = NULL;
    if ((s->depth == SECOND_ORDER_NONE && !s->critical) || !curvature_takes(p, c)) return OK;
    PASS(plan_check_weights(p->sweep, "curvature: second_order, critical", e));
    PASS(plan_data_identity(p, c->model, &data, &text, e));
    *own = json_pack("{s:i, s:i, s:b, s:o, s:s*}", "schema", 1, "depth", s->depth, "critical",
                     s->critical, "data", text, "products", plan_products(p->sweep));
    NEED(*own, ERR_NOMEM, "out of memory for a key");
    return OK;
}

/* Layers include the total. */
static enum status alike(struct plan *p, const struct plan_checkpoint *c, json_t **settings,
                         struct err *e)
{
    enum status st = OK;
    const struct second_order_options *s = &curvature_section(p->sweep)->predicted;
    json_auto_t *own = NULL;
    *settings = json_object();
    PASS(key(p, c, &own, e));
    for (int depth = SECOND_ORDER_NONE; depths[depth] && st == OK; depth++)
        for (int critical = 0; critical < 2 && st == OK; critical++) {
            char digest[HASH_HEX];
            const bool all = depth >= s->depth && critical >= s->critical;
            json_object_set_new(own, "depth", json_integer(depth));
            json_object_set_new(own, "critical", json_boolean(critical));
            st = plan_digest(json_deep_copy(own), digest, e);
            if (st == OK) json_object_set_new(*settings, digest, json_boolean(all));
        }
    return st;
}

static enum status make_setup(const struct plan *p, const struct plan_checkpoint *c, void *setup,
                              struct err *e)
{
    const struct curvature_section *from = curvature_section(p->sweep);
    const struct data_options data = curvature_text(p, c->model);
    struct second_order_setup *t = setup;
    t->depth = from->predicted.depth;
    t->critical = from->predicted.critical;
    t->together = from->options.together;
    t->memory = from->options.memory;
    const struct plan_checkpoint *before = t->critical ? plan_before(p, c) : NULL;
    if (before) PASS(weights_copy(&before->weights, &t->previous, e));
    PASS(options_copy(&data_table, &data, &t->data, e));
    return mem_string(&t->identity, c->keys[MEASURE_second_order], e);
}

static bool of_checkpoint(const void *setup)
{
    return ((const struct second_order_setup *)setup)->critical;
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

static bool writes(const struct second_order *s)
{
    return s->group->node_rank == 0;
}

/* Removes the node's file, which stays readable where it is open. */
static void end_file(const struct second_order *s, struct weights_spill *spill)
{
    if (spill->path && writes(s))
        temporary_end(spill->path);
    else
        free(spill->path);
    spill->path = NULL;
}

/* st, with the folder in the place of the file's name, which is nobody's but the program's. */
static enum status name_scratch(const struct weights_spill *spill, enum status st, struct err *e)
{
    char folder[1024];
    if (st != ERR_FULL && st != ERR_IO) return st;
    snprintf(folder, sizeof folder, "run.scratch: %.*s",
             (int)(strrchr(spill->path, '/') - spill->path), spill->path);
    err_rename(e, spill->path, folder);
    return st;
}

/* Names the node's file of variant i; the rank that writes it chooses the name. */
static enum status name_file(struct second_order *s, int64_t i, struct err *e)
{
    enum status st = OK;
    struct weights_spill *spill = &s->spills[i];
    const struct visit_group *g = s->group;
    st = writes(s) ? weights_file_scratch(s->context->visit->run.scratch, &spill->path, e) : OK;
    PASS(group_agree(g, st, e));
    int length = spill->path ? (int)strlen(spill->path) + 1 : 0;
    if (g->node_size > 1) MPI_Bcast(&length, 1, MPI_INT, 0, g->node);
    if (!writes(s)) st = mem_zero(&spill->path, length, 1, "a file's name", e);
    PASS(group_agree(g, st, e)); /* collective on all ranks, also those alone on their node */
    if (g->node_size > 1) MPI_Bcast(spill->path, length, MPI_CHAR, 0, g->node);
    return OK;
}

static enum status create_files(struct second_order *s, struct err *e)
{
    enum status st = OK;
    for (; s->n < s->context->visit->n_variants; s->n++) {
        struct weights_spill *spill = &s->spills[s->n];
        if (!variant_is_completed(&s->context->visit->variants[s->n])) continue;
        PASS(name_file(s, s->n, e));
        if (writes(s))
            st = weights_file_create(s->context->checkpoint, spill->path, &s->n_linears,
                                     &spill->out, e);
        st = name_scratch(spill, st, e);
        PASS(group_agree(s->group, st, e));
    }
    s->n_linears = group_max(s->group, s->n_linears);
    return OK;
}

enum status second_order_quantized(struct second_order *s, struct weights_spill *spill,
                                   struct err *e)
{
    enum status st = spill->out ? safetensors_commit(spill->out, e) : OK;
    st = name_scratch(spill, st, e);
    safetensors_out_close(spill->out);
    spill->out = NULL;
    PASS(group_agree(s->group, st, e));
    st = checkpoint_overlay(s->context->checkpoint, spill->path, &spill->quantized, e);
    PASS(group_agree(s->group, st, e)); /* every rank has opened it */
    end_file(s, spill);
    return OK;
}

/* --- the part --- */

static void inputs(const struct visit *v, char stamp[HASH_HEX])
{
    const struct second_order_setup *t = v->setup[MEASURE_second_order];
    stamp_data(stamp, &t->data);
    stamp_weights(stamp, &t->previous);
}

static void cost(const void *setup, const struct model_sizes *m, const struct cost_tokens *t,
                 bool kept, struct cost *once, struct cost *cell)
{
    const struct second_order_setup *s = setup;
    *once = cost_second_order(m, t, s->depth, s->critical, kept);
    *cell = cost_second_order_cell(m, t, s->depth, s->critical, kept);
}

static enum status memory(const void *setup, const struct memory_after *a, bool may_keep,
                          struct memory_fit *out, struct err *e)
{
    const struct second_order_setup *t = setup;
    return memory_fit_second_order(a, t->depth, t->critical, t->together, t->memory, may_keep, out,
                                   e);
}

static enum status open_state(struct part_context *c, struct err *e)
{
    struct second_order *s = c->state[MEASURE_second_order];
    int64_t n = c->visit->n_variants;
    bool all = !c->visit->run.reproducible || c->group->size == 1;
    s->context = s->writable = c;
    s->setup = c->visit->setup[MEASURE_second_order];
    s->group = all ? c->group : c->group->rank == 0 ? c->self : NULL;
    PASS(mem_zero(&s->results, n, sizeof *s->results, "predictions", e));
    return mem_zero(&s->spills, n, sizeof *s->spills, "quantized weights", e);
}

static enum status begin(struct part_context *c, struct err *e)
{
    struct second_order *s = c->state[MEASURE_second_order];
    return s->group ? create_files(s, e) : OK;
}

static enum status linear(struct part_context *c, const struct variant *v, const struct linear *l,
                          const float *q, const struct quant_grids *grids, struct err *e)
{
    const struct second_order *s = c->state[MEASURE_second_order];
    (void)grids;
    if (!s->group) return OK;
    struct weights_spill *spill = &s->spills[v - c->visit->variants];
    if (spill->out)
        PASS(name_scratch(spill, safetensors_append(spill->out, q, l->rows * l->cols, e), e));
    spill->linears++;
    return OK;
}

static void move(struct part_context *c, const struct variant *v, struct saved_move *m)
{
    const struct second_order *s = c->state[MEASURE_second_order];
    if (!s->group) return;
    struct weights_spill *spill = &s->spills[v - c->visit->variants];
    saved_bytes(m, &spill->linears, sizeof spill->linears);
    if (spill->out) safetensors_move(spill->out, m);
}

/* All ranks of the visit open what is read, those too that do not measure (reads.h). */
static enum status run(struct part_context *c, struct err *e)
{
    struct second_order *s = c->state[MEASURE_second_order];
    const struct weights *of = &s->setup->previous;
    const bool critical = s->setup->critical && !c->visit->cells_only && !weights_table.absent(of);
    CLEANUP(checkpoint_close_at) struct checkpoint *previous = NULL;
    struct err failure = {0};
    if (critical && weights_open(of, c, &previous, &failure) == OK) err_clear(&failure);
    if (!s->group) return OK;
    if (s->n > 0) PASS(second_order_measure(s, e));
    c->provenance.memory_planned = max64(c->provenance.memory_planned, s->planned);
    if (critical) PASS(second_order_of_checkpoint(s, previous, &failure, e));
    return OK;
}

/* The terms of the expansion for one layer. A new reference. */
static json_t *layer_new(const struct prediction_part *p)
{
    json_t *layer = json_object();
    record_number(layer, "first_order", p->first_order);
    record_number(layer, "second_order", p->second_order);
    if (!isnan(p->diagonal)) record_number(layer, "diagonal", p->diagonal);
    return layer;
}

static void annotate_cell(json_t *record, const struct second_order_result *r)
{
    const struct prediction *p = &r->prediction;
    json_t *values = json_object_get(record, "values"), *layers = json_object_get(record, "layers");
    record_number(values, "true_difference", r->true_difference);
    record_number(values, "seconds_second_order", r->seconds);
    for (int64_t t = 0; t < r->n_tensors; t++)
        json_object_set_new(layers, r->names[t], layer_new(&p->parts[t]));
    if (!p->n_tensors) return;
    record_number(values, "first_order", p->first_order);
    record_number(values, "second_order", p->second_order);
    record_number(values, "curvature_along_delta", 2 * p->second_order / p->squared_norm);
}

/* The completion names the settings even if the prediction failed, so that it is not tried again.
 */
static void annotate(const struct part_context *c, const struct variant *v,
                     const struct err *failure, json_t *record)
{
    const struct second_order *s = c->state[MEASURE_second_order];
    const struct second_order_result *r =
        v ? &s->results[v - c->visit->variants] : &s->of_checkpoint;
    if (!v && !s->setup->critical) return;
    const bool failed = failure->code != OK || r->failure;
    const struct err why = {.code = failure->code != OK ? failure->code : r->code};
    json_t *completes = json_object_get(record, "completes");
    json_object_set_new(completes, "second_order", json_string(s->setup->identity));
    json_object_set_new(
        completes, "second_order_inputs",
        json_string(failed ? provenance_stamp(&why, c->stamp[MEASURE_second_order]) : ""));
    if (failure->code != OK)
        json_object_set_new(record, "message", json_sprintf("second_order: %s", failure->text));
    if (r->failure) json_object_set_new(record, "message", json_string(r->failure));
    if (!r->done) return;
    if (r->critical.passes)
        record_number(json_object_get(record, "values"), "critical_sharpness",
                      r->critical.sharpness);
    if (v) annotate_cell(record, r);
}

static void close_state(struct part_context *c)
{
    struct second_order *s = c->state[MEASURE_second_order];
    for (int64_t i = 0; i < c->visit->n_variants; i++) {
        struct weights_spill *spill = s->spills ? &s->spills[i] : &(struct weights_spill){0};
        checkpoint_close(spill->quantized);
        safetensors_out_close(spill->out);
        end_file(s, spill);
        if (s->results) second_order_result_free(&s->results[i]);
    }
    second_order_result_free(&s->of_checkpoint);
    free(s->results);
    free(s->spills);
}

const struct measure measure_second_order = {
    .name = "second_order",
    .doing = "second order",
    .of_cells = true,
    .of_checkpoint = of_checkpoint,
    .key = key,
    .alike = alike,
    .make_setup = make_setup,
    .text = curvature_text,
    .inputs = inputs,
    .setup = &setup_table,
    .cost = cost,
    .memory = memory,
    .phase = COST_SECOND_ORDER,
    .in_fixed_order = true,
    .state = sizeof(struct second_order),
    .open = open_state,
    .begin = begin,
    .linear = linear,
    .move = move,
    .run = run,
    .annotate = annotate,
    .close = close_state,
};

/* movement: how far a checkpoint's weights are from those of the checkpoint before it in training,
 * in all and by tensor, and beside the step of a quantizer (docs/math/movement.md). */
#include "engine/part.h"
#include "engine/stamp.h"
#include "measures/distance.h"
#include "options/nearest.h"
#include "plan/plan.h"
#include "quant/grids.h"
#include "records/record_parts.h"
#include "util/log.h"
#include "util/mem.h"
#include "util/num.h"
#include <math.h>
#include <stdio.h>

/* --- its key of the sweep file --- */

struct movement_section {
    char *movement; /* label of the method with whose grid it is compared; NULL: none */
    int64_t movement_weights;
};

static const struct option section_keys[] = {
    OPTION(
        movement_section, movement, TEXT,
        "measure how far the weights of each checkpoint are from those of the checkpoint before: "
        "name of the method in `methods` with whose steps the distance is compared",
        .otherwise = "no movement"),
    OPTION(movement_section, movement_weights, INT,
           "single weights whose values are kept at each checkpoint, also rounded to those steps: "
           "the same places in all",
           .unit = "weights", .fallback = "0", .low = 0, .high = 10000),
};

static const struct movement_section *section_of(const struct sweep *s)
{
    return s->sections[MEASURE_movement];
}

/* NULL: no movement is asked for, or no entry has the name. */
static const struct method_entry *grid_of(const struct sweep *s)
{
    const char *label = section_of(s)->movement;
    for (int64_t i = 0; label && i < s->n_methods; i++)
        if (strcmp(s->methods[i].name, label) == 0) return &s->methods[i];
    return NULL;
}

static enum status fail_label(const struct sweep *s, const char *label,
                              const struct option_scope *scope, struct err *e)
{
    char advice[400];
    const char **names = NULL;
    PASS(mem_zero(&names, s->n_methods, sizeof *names, "names of methods", e));
    for (int64_t i = 0; i < s->n_methods; i++) names[i] = s->methods[i].name;
    nearest_advice(label, names, s->n_methods, advice, sizeof advice);
    free(names);
    return options_fail(scope, "movement", e, "no entry of methods has the name %s%s", label,
                        advice);
}

/* It is compared with a grid that follows from the weights alone. */
static enum status check(const struct sweep *s, const struct option_scope *scope, struct err *e)
{
    const char *label = section_of(s)->movement;
    const struct method_entry *m = grid_of(s);
    if (!label && section_of(s)->movement_weights)
        return options_fail(scope, "movement_weights", e, "expected `movement` beside it");
    if (!label) return OK;
    if (!m) return fail_label(s, label, scope, e);
    const struct quant_method *method = quant_find(m->method);
    if (!method) return OK; /* the plan refuses it */
    struct quant_grid_form form;
    if (method->describe_grids != grid_describe || method_entry_places(m) ||
        quant_grid_form_of(method, &m->options, &form, NULL) != OK)
        return options_fail(
            scope, "movement", e,
            "%s has no grid of its own over a group of weights; expected a method "
            "rtn, gptq or gptaq without mixing, rotation, codes, outlier_columns, down_bits or "
            "lqer_rank",
            label);
    return OK;
}

/* --- its setup --- */

struct movement_setup {
    char *from;               /* name of the checkpoint before */
    struct weights before;    /* its weights */
    struct method_entry grid; /* the method whose grid is taken, with its bit-widths */
    int64_t weights;          /* single ones */
    char *parts; /* of its record, if finished ones have some of them (record_parts.h) */
};

static const struct option setup_fields[] = {
    OPTION(movement_setup, from, TEXT, ""),
    OPTION(movement_setup, before, GROUP, "", .table = &weights_table),
    OPTION(movement_setup, grid, GROUP, "", .table = &method_table),
    OPTION(movement_setup, weights, INT, "", OPTION_ANY_INT),
    OPTION(movement_setup, parts, TEXT, ""),
};
static const struct option_table setup_table = {OPTION_ROWS(setup_fields, movement_setup)};

static enum status key(struct plan *p, const struct plan_checkpoint *c, json_t **own, struct err *e)
{
    const struct method_entry *grid = grid_of(p->sweep);
    const struct plan_checkpoint *before = plan_before(p, c);
    *own = NULL;
    if (!grid || !before) return OK;
    json_t *bits = json_array();
    for (int64_t i = 0; i < grid->n_bits; i++)
        json_array_append_new(bits, json_integer((json_int_t)grid->bits[i]));
    const struct quant_options *o = &grid->options;
    *own = json_pack("{s:i, s:s, s:s*, s:s, s:I, s:b, s:f, s:i, s:o}", "movement", 1, "before",
                     plan_known_name(p, before), "recipe_before",
                     before->recipe[0] ? before->recipe : NULL, "grid", grid->method, "group_size",
                     (json_int_t)o->group_size, "symmetric", o->symmetric, "range_search",
                     o->range_search, "scale_dtype", o->scale_dtype, "bits", bits);
    const int64_t weights = section_of(p->sweep)->movement_weights;
    if (weights) json_object_set_new(*own, "weights", json_integer((json_int_t)weights));
    NEED(*own, ERR_NOMEM, "out of memory for a key");
    return OK;
}

/* Earlier versions hashed the label. */
static bool former(const struct sweep *s, json_t *own)
{
    const struct method_entry *grid = grid_of(s);
    json_object_set_new(own, "grid", json_string(grid->name));
    return strcmp(grid->name, grid->method) != 0;
}

static enum status make_setup(const struct plan *p, const struct plan_checkpoint *c, void *setup,
                              struct err *e)
{
    struct movement_setup *t = setup;
    const struct plan_checkpoint *before = plan_before(p, c);
    PASS(options_copy(&method_table, grid_of(p->sweep), &t->grid, e));
    PASS(mem_string(&t->from, plan_name_of(p, before), e));
    t->weights = section_of(p->sweep)->movement_weights;
    return weights_copy(&before->weights, &t->before, e);
}

static enum status leave(void *setup, const json_t *parts, struct err *e)
{
    struct movement_setup *t = setup;
    int64_t n = 0;
    json_t *one;
    size_t i;
    json_array_foreach(parts, i, one)
        if (!json_object_get(one, "from"))
            t->grid.bits[n++] = strtoll(json_text(one, "part", ""), NULL, 10);
    t->grid.n_bits = n;
    return parts_keep(parts, &t->parts, e);
}

static const struct measure_parts parts = {
    .list = parts_of_movement, .leave = leave, .compose = compose_movement};

static bool stale(const struct plan *p, const struct plan_checkpoint *c, const json_t *record)
{
    return plan_weights_changed(plan_before(p, c), record, "weights_before");
}

/* --- its records --- */

static const struct field fields[] = {
    {STATUS_FIELD("movement_status")},
    {MESSAGE_FIELD("movement_message")},
    {"before", "movement_from", IN_RECORD, FIELD_TEXT, STABLE, NULL,
     "name of the checkpoint before, which movement is from"},
    {"grid", "movement_quantizer", IN_RECORD, FIELD_TEXT, STABLE, NULL,
     "quantizer whose grid movement_step is of"},

    {"distance", "movement", IN_VALUES, FIELD_REAL, STABLE, "1",
     "Euclidean distance of all weights from those of the checkpoint before"},
    {"relative", "movement_relative", IN_VALUES, FIELD_REAL, STABLE, "1",
     "movement over the Euclidean norm of all weights"},
    {"distance_quantized", "movement_quantized", IN_VALUES, FIELD_REAL, STABLE, "1",
     "the same distance of the weights that quantization changes"},
    {"relative_quantized", "movement_quantized_relative", IN_VALUES, FIELD_REAL, STABLE, "1",
     "movement_quantized over the Euclidean norm of these weights"},
    {SECONDS_FIELD("seconds", "movement_seconds", "time of the measurement of movement")},

    {"step", "movement_step", IN_INNER, FIELD_REAL, STABLE, "1",
     "step of the quantizer's grid, root mean square over the weights that it changes"},
    {"in_steps", "movement_in_steps", IN_INNER, FIELD_REAL, STABLE, "1",
     "root mean square of the change of a weight since the checkpoint before, over movement_step"},

    RECORD_FIELDS,
};

static const struct field tensors[] = {
    {"tensor", "tensor", IN_LIST, FIELD_TEXT, STABLE, NULL, "name of the tensor"},
    {"layer", "layer", IN_LIST, FIELD_INTEGER, STABLE, "1", "its block; -1 outside the blocks"},
    {"elements", "elements", IN_LIST, FIELD_INTEGER, STABLE, "1", "its parameters"},
    {"quantized", "quantized", IN_LIST, FIELD_INTEGER, STABLE, "1",
     "1: quantization changes it; 0: it does not"},
    {"squared_distance", "squared_distance", IN_LIST, FIELD_REAL, STABLE, "1",
     "squared Euclidean distance from the tensor of the checkpoint before"},
    {"squared_norm", "squared_norm", IN_LIST, FIELD_REAL, STABLE, "1",
     "its squared Euclidean norm"},
    {0},
};

static const struct field grids[] = {
    {"tensor", "tensor", IN_LIST, FIELD_TEXT, STABLE, NULL, "name of the tensor"},
    {"layer", "layer", IN_LIST, FIELD_INTEGER, STABLE, "1", "its block"},
    {"bits", "bits", IN_LIST, FIELD_INTEGER, STABLE, "1", "bits of a quantized weight's code"},
    {"step", "step", IN_LIST, FIELD_REAL, STABLE, "1",
     "step of the grid, root mean square over the tensor's elements"},
    {"in_steps", "in_steps", IN_LIST, FIELD_REAL, STABLE, "1",
     "root mean square of the change of an element since the checkpoint before, over step"},
    {0},
};

static const struct field weights[] = {
    {"tensor", "tensor", IN_LIST, FIELD_TEXT, STABLE, NULL, "name of the tensor"},
    {"layer", "layer", IN_LIST, FIELD_INTEGER, STABLE, "1", "its block"},
    {"element", "element", IN_LIST, FIELD_INTEGER, STABLE, "1",
     "place of the weight in the tensor, row by row"},
    {"bits", "bits", IN_LIST, FIELD_INTEGER, STABLE, "1", "bits of a quantized weight's code"},
    {"before", "weight_before", IN_LIST, FIELD_REAL, STABLE, "1",
     "the weight at the checkpoint before"},
    {"weight", "weight", IN_LIST, FIELD_REAL, STABLE, "1", "the weight"},
    {"rounded", "weight_rounded", IN_LIST, FIELD_REAL, STABLE, "1",
     "nearest value to it on the quantizer's grid"},
    {0},
};

static const struct record_table tables[] = {
    {"tensors", "movement_tensors", tensors},
    {"grids", "movement_grids", grids},
    {"weights", "movement_weights", weights},
    {0},
};

struct state {
    struct checkpoint *before;
    struct distance distance;
};

/* --- a record --- */

/* {BITS: {step, in_steps}} over all weights that are quantized. */
static json_t *bits_object(const struct method_entry *grid, const struct tensor_distance *quantized,
                           int64_t elements)
{
    json_t *all = json_object();
    for (int64_t k = 0; k < grid->n_bits; k++) {
        char label[24];
        json_t *one = json_object();
        record_number(one, "step", sqrt(quantized->steps[k] / (double)elements));
        record_number(one, "in_steps", sqrt(quantized->distance / quantized->steps[k]));
        snprintf(label, sizeof label, "%lld", (long long)grid->bits[k]);
        json_object_set_new(all, label, one);
    }
    return all;
}

static void add_sums(struct tensor_distance *to, const struct tensor_distance *more)
{
    to->distance += more->distance;
    to->norm += more->norm;
    for (int k = 0; k < QUANT_BITS_N; k++) to->steps[k] += more->steps[k];
}

/* What rows of all tables begin with. */
#define TENSOR(t) json_string((t)->name), json_integer((t)->layer)

static json_t *tables_of(const struct distance *d)
{
    json_t *all = json_pack("{s:{}, s:{}}", "tensors", "grids"), *one = NULL;
    for (int64_t i = 0; i < d->n; i++) {
        const struct tensor_description *t = &d->tensors[i];
        const struct tensor_distance *sum = &d->sums[i];
        const int64_t n = tensor_elements(t);
        RECORD_ROW(json_object_get(all, "tensors"), tensors, TENSOR(t), json_integer(n),
                   json_integer(t->linear), json_number_new(sum->distance),
                   json_number_new(sum->norm));
        for (int64_t k = 0; t->linear && k < d->grid->n_bits; k++)
            RECORD_ROW(json_object_get(all, "grids"), grids, TENSOR(t),
                       json_integer(d->grid->bits[k]),
                       json_number_new(sqrt(sum->steps[k] / (double)n)),
                       json_number_new(sqrt(sum->distance / sum->steps[k])));
    }
    if (d->n_weights) json_object_set_new(all, "weights", one = json_object());
    for (int64_t k = 0; k < d->grid->n_bits; k++)
        for (int64_t i = 0; i < d->n_weights; i++) {
            const double *w = d->weights[i];
            RECORD_ROW(one, weights, TENSOR(&d->tensors[d->places[i].tensor]),
                       json_integer(d->places[i].element), json_integer(d->grid->bits[k]),
                       json_number_new(w[WEIGHT_BEFORE]), json_number_new(w[WEIGHT_NOW]),
                       json_number_new(w[WEIGHT_ROUNDED + k]));
        }
    return all;
}

static void set_numbers(json_t *record, const struct distance *d)
{
    struct tensor_distance all = {0}, quantized = {0};
    json_t *values = json_object_get(record, "values");
    int64_t elements = 0;
    for (int64_t i = 0; i < d->n; i++) {
        add_sums(&all, &d->sums[i]);
        if (!d->tensors[i].linear) continue;
        add_sums(&quantized, &d->sums[i]);
        elements += tensor_elements(&d->tensors[i]);
    }
    record_number(values, "distance", sqrt(all.distance));
    record_number(values, "relative", sqrt(all.distance / all.norm));
    record_number(values, "distance_quantized", sqrt(quantized.distance));
    record_number(values, "relative_quantized", sqrt(quantized.distance / quantized.norm));
    json_object_set_new(record, "bits", bits_object(d->grid, &quantized, elements));
    json_object_set_new(record, "tables", tables_of(d));
}

static enum status emit(struct part_context *c, const struct err *failure, struct err *e)
{
    const struct movement_setup *t = c->visit->setup[MEASURE_movement];
    const struct state *s = c->state[MEASURE_movement];
    json_t *record = part_record(c, MEASURE_movement, failure);
    json_object_set_new(record, "before", json_string(t->from));
    json_object_set_new(record, "grid", json_string(t->grid.name));
    json_object_set_new(record, "bits", json_object());
    if (failure->code == OK) {
        json_object_set_new(json_object_get(record, "provenance"), "weights_before",
                            json_string(checkpoint_hash(s->before)));
        set_numbers(record, &s->distance);
        parts_note(record, t->parts);
    }
    return part_emit(c, record, e);
}

/* --- the part --- */

static void inputs(const struct visit *v, char stamp[HASH_HEX])
{
    stamp_weights(stamp, &((const struct movement_setup *)v->setup[MEASURE_movement])->before);
}

/* Bytes of a weight on disk in most checkpoints. */
enum { BYTES_PER_WEIGHT = 2 };

/* Both checkpoints are read; the grids are fitted. */
static void cost(const void *setup, const struct model_sizes *m, const struct cost_tokens *t,
                 bool kept, struct cost *once, struct cost *cell)
{
    const struct method_entry *grid = &((const struct movement_setup *)setup)->grid;
    double flop = 0;
    (void)t;
    (void)kept;
    (void)cell;
    for (int i = 0; i < STAGE_N; i++)
        flop += grid_flop(m->all_rows[i], m->cols[i], &grid->options) * (double)grid->n_bits;
    *once = (struct cost){.flop = {[COST_SWEEP] = flop * (double)m->shape.layers},
                          .bytes = 2.0 * BYTES_PER_WEIGHT * (double)m->shape.parameters};
}

/* Less than the blocks take, which are read before; so there is no limit to keep. */
static enum status memory(const void *setup, const struct memory_after *a, bool may_keep,
                          struct memory_fit *out, struct err *e)
{
    const struct method_entry *grid = &((const struct movement_setup *)setup)->grid;
    int64_t cols = 0;
    (void)may_keep;
    (void)e;
    for (int i = 0; i < STAGE_N; i++) cols = max64(cols, a->sizes->cols[i]);
    out->bytes = a->base + a->threads * distance_bytes(&grid->options, cols);
    return OK;
}

static enum status run(struct part_context *c, struct err *e)
{
    const struct movement_setup *t = c->visit->setup[MEASURE_movement];
    struct state *s = c->state[MEASURE_movement];
    PASS(weights_open(&t->before, c, &s->before, e));
    s->distance = (struct distance){
        .from = s->before, .to = c->checkpoint, .grid = &t->grid, .n_weights = t->weights};
    log_trace("visit", "movement: steps of %lld bit-widths", (long long)t->grid.n_bits);
    return distance_measure(&s->distance, c->group->comm, c->hooks->should_stop, c->hooks->context,
                            c->pace, e);
}

static void close_state(struct part_context *c)
{
    struct state *s = c->state[MEASURE_movement];
    distance_free(&s->distance);
    checkpoint_close(s->before);
}

const struct measure measure_movement = {
    MEASURE_OF_CHECKPOINTS(movement),
    .section = {OPTION_ROWS(section_keys, movement_section)},
    .check = check,
    .group = "movements",
    .inner = &axis_bits,
    .fields = fields,
    .tables = tables,
    .number_long_name = "number of the record, as in movements/",
    .key = key,
    .former = former,
    .parts = &parts,
    .make_setup = make_setup,
    .stale = stale,
    .inputs = inputs,
    .setup = &setup_table,
    .cost = cost,
    .memory = memory,
    .state = sizeof(struct state),
    .run = run,
    .emit = emit,
    .close = close_state,
};

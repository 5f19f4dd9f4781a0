/* Makes the grid: coordinates, the columns of the trajectory tables, and variables for the fields
 * of every kind along its axes. */
#include "cube/cube_build.h"
#include "util/mem.h"

/* Fields of each checkpoint in the plan. */
static const struct field trajectory[] = {
    {"name", "checkpoint_name", IN_RECORD, FIELD_TEXT, STABLE, NULL, "name of the checkpoint"},
    {"step", "step", IN_RECORD, FIELD_INTEGER, STABLE, "1", "training step"},
    {"tokens", "tokens", IN_RECORD, FIELD_REAL, STABLE, "1", "training tokens seen"},
    {"learning_rate", "learning_rate", IN_RECORD, FIELD_REAL, STABLE, "1", "learning rate"},
    {"phase", "phase", IN_RECORD, FIELD_TEXT, STABLE, NULL, "phase of the training"},
    {"kind", "kind", IN_RECORD, FIELD_TEXT, STABLE, NULL, "stored, or average"},
    {"recipe", "recipe", IN_RECORD, FIELD_TEXT, STABLE, NULL, "what an average is made of"},
    {"average", "average", IN_RECORD, FIELD_TEXT, STABLE, NULL,
     "entry of `averages` that it is of"},
    {0},
};
static const struct field branch_of = {
    "branch_of", "branch_of", IN_RECORD, FIELD_TEXT, STABLE, NULL, "model that it branches from"};
static const char trajectory_names[] =
    "checkpoint_name step tokens learning_rate phase kind recipe average branch_of";

static enum status add_coordinates(struct cube *c, struct err *e)
{
    for (int i = 0; results_axes[i]; i++) {
        const struct axis_labels *l = &c->all.axes.labels[i];
        struct cube_variable *x;
        int dim;
        PASS(cube_add_dim(c, "", results_axes[i]->name, l->n, &dim, e));
        c->dims[dim].absent = axis_is_absent(&c->all.axes, results_axes[i]);
        if (c->dims[dim].absent) continue;
        PASS(cube_add_column(c, "", dim, results_axes[i]->name,
                             results_axes[i]->number ? FIELD_INTEGER : FIELD_TEXT,
                             results_axes[i]->long_name, &x, e));
        x->is_scale = true;
        const void *from = results_axes[i]->number ? (void *)l->numbers : (void *)l->texts;
        if (l->n) memcpy(x->data.any, from, (size_t)l->n * cube_element_size[x->type]);
    }
    return OK;
}

static const json_t *of_checkpoint(const struct cube *c, int64_t m, int64_t k, const char *key)
{
    return json_object_get(c->all.axes.models[m].checkpoints[k].plan, key);
}

static enum status add_trajectories(struct cube *c, struct err *e)
{
    int64_t longest = c->all.axes.labels[AXIS_CHECKPOINT].n;
    for (const struct field *f = trajectory; f->name; f++) {
        struct cube_variable *x;
        PASS(cube_add_field(c, f, "", 2, (int[]){AXIS_MODEL, AXIS_CHECKPOINT}, &x, e));
        for (int64_t m = 0; m < c->all.axes.labels[AXIS_MODEL].n; m++)
            for (int64_t k = 0; k < c->all.axes.models[m].n; k++)
                cube_put(x, m * longest + k, of_checkpoint(c, m, k, f->name));
    }
    const json_t *models = json_object_get(c->all.axes.plan, "models");
    struct cube_variable *x;
    PASS(cube_add_field(c, &branch_of, "", 1, (int[]){AXIS_MODEL}, &x, e));
    for (int64_t m = 0; m < x->n; m++)
        cube_put(x, m, json_object_get(json_array_get(models, (size_t)m), branch_of.name));
    return OK;
}

/* The fields' variables have the named ones as coordinates too. */
static enum status add_coordinate(struct cube *c, const char *name, struct err *e)
{
    char *names;
    PASS(mem_format(&names, e, "%s %s", c->coordinates, name));
    PASS(cube_own(c, names, e));
    c->coordinates = names;
    return OK;
}

/* --- what methods quantize beside weights --- */

static const struct field grid_bits[] = {
    {"activation_bits", "activation_bits", IN_RECORD, FIELD_INTEGER, STABLE, "bit",
     "bits of the inputs of linears; 16: not quantized"},
    {"key_bits", "key_bits", IN_RECORD, FIELD_INTEGER, STABLE, "bit",
     "bits of keys; 16: not quantized"},
    {"value_bits", "value_bits", IN_RECORD, FIELD_INTEGER, STABLE, "bit",
     "bits of values; 16: not quantized"},
    {0},
};

/* Variables along the quantizers, if the plan has any such method. */
static enum status add_grid_bits(struct cube *c, struct err *e)
{
    const struct axes *a = &c->all.axes;
    const json_t *list = json_object_get(a->plan, "variants"), *bits;
    bool any = false;
    for (int64_t i = 0; i < a->n_variants; i++)
        for (const struct field *f = grid_bits; f->name; f++)
            any = any || json_object_get(json_array_get(list, (size_t)i), f->name);
    for (const struct field *f = grid_bits; any && f->name; f++) {
        struct cube_variable *x;
        PASS(cube_add_field(c, f, "", 1, (int[]){AXIS_QUANTIZER}, &x, e));
        for (int64_t i = 0; i < x->n; i++) x->data.i[i] = 16;
        for (int64_t i = 0; i < a->n_variants; i++) {
            bits = json_object_get(json_array_get(list, (size_t)i), f->name);
            if (bits) x->data.i[a->variants[i].quantizer_at] = json_integer_value(bits);
        }
    }
    return any ? add_coordinate(c, "activation_bits key_bits value_bits", e) : OK;
}

/* --- columns of the user's own --- */

static enum status add_column(struct cube *c, const json_t *column, size_t place, struct err *e)
{
    const bool number = json_flag(column, "number");
    const struct cube_variable like = {.group = "",
                                       .name = json_text(column, "name", ""),
                                       .type = number ? FIELD_REAL : FIELD_TEXT,
                                       .rank = 2,
                                       .dims = {AXIS_MODEL, AXIS_CHECKPOINT},
                                       .may_miss = number,
                                       .long_name = "column of the trajectory table"};
    struct cube_variable *x;
    int64_t longest = c->all.axes.labels[AXIS_CHECKPOINT].n;
    NEED(like.name[0], ERR_FORMAT, "plan: a column without a name");
    PASS(cube_add(c, &like, &x, e));
    for (int64_t m = 0; m < c->all.axes.labels[AXIS_MODEL].n; m++)
        for (int64_t k = 0; k < c->all.axes.models[m].n; k++)
            cube_put(x, m * longest + k, json_array_get(of_checkpoint(c, m, k, "columns"), place));
    return add_coordinate(c, like.name, e);
}

static bool kind_reserves(const struct measure *k, const char *name)
{
    bool found = strcmp(name, k->group) == 0 || (k->number && strcmp(name, k->number) == 0) ||
                 (k->list && strcmp(name, k->list->group) == 0);
    for (const struct field *f = k->fields; f->name; f++)
        found = found || strcmp(name, f->variable) == 0;
    for (const struct measure_spread *s = k->spreads; s && s->of; s++)
        found = found || strcmp(name, s->mean) == 0 || strcmp(name, s->deviation) == 0;
    for (const struct measure_mean *m = k->means; m && m->of; m++)
        found = found || strcmp(name, m->mean) == 0 || (m->error && strcmp(name, m->error) == 0);
    found = found || (k->spread_count && strcmp(name, k->spread_count) == 0);
    for (const struct record_table *t = k->tables; t && t->name; t++)
        found = found || strcmp(name, t->group) == 0;
    return found;
}

bool cube_reserves(const char *name)
{
    static const char *const others[] = {
        "branch_of",  "row",           "sequence_start",       "sequence_count", "sequences",
        "provenance", "common_tokens", "baseline_loss_common", "loss_common",    "training_curves"};
    bool found = false;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        found = found || strcmp(name, others[i]) == 0;
    for (int i = 0; results_axes[i]; i++) found = found || strcmp(name, results_axes[i]->name) == 0;
    for (const struct field *f = trajectory; f->name; f++)
        found = found || strcmp(name, f->variable) == 0;
    for (const struct field *f = grid_bits; f->name; f++)
        found = found || strcmp(name, f->variable) == 0;
    for (int k = 0; recorded_measures[k]; k++)
        found = found || kind_reserves(recorded_measures[k], name);
    return found;
}

/* --- fields of the kinds --- */

static enum status add_fields(struct cube *c, bool numbers, struct err *e)
{
    for (int i = 0; recorded_measures[i]; i++) {
        const struct measure *k = recorded_measures[i];
        int dims[CUBE_RANK], rank = 0;
        if (!measure_is_there(k, &c->all.axes)) continue;
        for (; k->axes[rank]; rank++) dims[rank] = axis_place_of(k->axes[rank]);
        const int inner = !k->inner ? 0 : k->within ? 2 : 1;
        if (k->inner) dims[rank] = axis_place_of(k->inner);
        if (k->within) dims[rank + 1] = axis_place_of(k->within);
        for (const struct field *f = k->fields; f->name; f++) {
            const bool number = f->type == FIELD_REAL || f->type == FIELD_INTEGER;
            struct cube_variable *x;
            if (!measure_on_grid(k, f) || number != numbers) continue;
            PASS(cube_add_field(c, f, "", rank + (f->place == IN_INNER ? inner : 0), dims, &x, e));
            x->of = k;
            x->coordinates = c->coordinates;
        }
    }
    return OK;
}

enum status cube_add_grid(struct cube *c, struct err *e)
{
    size_t i;
    json_t *column;
    PASS(add_coordinates(c, e));
    PASS(add_trajectories(c, e));
    c->coordinates = trajectory_names;
    json_array_foreach(json_object_get(c->all.axes.plan, "columns"), i, column)
        PASS(add_column(c, column, i, e));
    PASS(add_grid_bits(c, e));
    PASS(add_fields(c, false, e));
    PASS(add_fields(c, true, e));
    return cube_add_derived(c, e);
}

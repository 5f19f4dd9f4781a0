/* Makes the grid: coordinates, the columns of the trajectory tables, and variables for the fields
 * of every kind along its axes. */
#include "cube/cube_build.h"
#include "util/mem.h"
#include "util/num.h"
#include <math.h>

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

/* A variable of the checkpoints' entries in the plan: of the field there or, place 0 and up, of
 * that element of their "columns". */
static enum status add_of_checkpoints(struct cube *c, const struct field *f, int64_t place,
                                      struct err *e)
{
    struct cube_variable *x;
    PASS(cube_add_field(c, f, "", 2, (int[]){AXIS_MODEL, AXIS_CHECKPOINT}, &x, e));
    x->field = NULL;
    for (int64_t m = 0; m < c->all.axes.labels[AXIS_MODEL].n; m++)
        for (int64_t k = 0; k < c->all.axes.models[m].n; k++) {
            const json_t *plan = c->all.axes.models[m].checkpoints[k].plan,
                         *columns = json_object_get(plan, "columns");
            cube_put(x, m * c->all.axes.labels[AXIS_CHECKPOINT].n + k,
                     place < 0 ? json_object_get(plan, f->name)
                               : json_array_get(columns, (size_t)place));
        }
    return OK;
}

static enum status add_trajectories(struct cube *c, struct err *e)
{
    const json_t *models = json_object_get(c->all.axes.plan, "models");
    struct cube_variable *x;
    for (const struct field *f = trajectory; f->name; f++) PASS(add_of_checkpoints(c, f, -1, e));
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

/* --- names --- */

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

/* --- variables that are made of others, once those are full --- */

/* --- losses per token of the sweep's common tokenizer (eval/common_tokens.h) --- */

static const struct field tokens = {"common_tokens",
                                    "common_tokens",
                                    IN_RECORD,
                                    FIELD_INTEGER,
                                    STABLE,
                                    "1",
                                    "tokens of the scored text by the tokenizer of count_tokens"};

/* A loss per common token, and the variables that it is made of. */
static const struct loss {
    struct field field;
    const struct measure *kind;
    const char *per_byte;
} losses[] = {
    {{"", "baseline_loss_common", IN_INNER, FIELD_REAL, STABLE, "nat",
      "full-precision cross-entropy per common token"},
     &measure_checkpoint,
     "baseline_bits_per_byte"},
    {{"", "loss_common", IN_INNER, FIELD_REAL, STABLE, "nat",
      "cross-entropy of the quantized model per common token"},
     &measure_cell,
     "bits_per_byte"},
};
enum { LOSSES = sizeof losses / sizeof *losses };

static const json_t *counts_of(const struct cube *c, int64_t model)
{
    const json_t *models = json_object_get(c->all.axes.plan, "models");
    return json_object_get(json_array_get(models, (size_t)model), tokens.name);
}

/* --- means and spreads --- */

static enum status add(struct cube *c, const char *name, enum field_type type,
                       const struct measure *of, int rank, const int *dims, const char *units,
                       const char *long_name, struct err *e)
{
    struct cube_variable like = {.group = "",
                                 .name = name,
                                 .type = type,
                                 .rank = rank,
                                 .of = of,
                                 .may_miss = true,
                                 .units = units,
                                 .long_name = long_name,
                                 .coordinates = c->coordinates},
                         *x;
    memcpy(like.dims, dims, (size_t)rank * sizeof *dims);
    return cube_add(c, &like, &x, e);
}

static enum status add_spreads(struct cube *c, const struct measure *k, struct err *e)
{
    static const int dims[] = {AXIS_MODEL, AXIS_CHECKPOINT, AXIS_BITS, AXIS_QUANTIZER,
                               AXIS_DATASET};
    const struct measure *of = &measure_cell;
    for (const struct measure_spread *s = k->spreads; s->of; s++) {
        PASS(add(c, s->mean, FIELD_REAL, of, 5, dims, s->units, s->mean_long_name, e));
        PASS(add(c, s->deviation, FIELD_REAL, of, 5, dims, s->units, s->deviation_long_name, e));
    }
    return add(c, k->spread_count, FIELD_INTEGER, of, 4, dims, "1",
               "replicates that are done, the cell included", e);
}

static enum status add_means(struct cube *c, const struct measure *k, struct err *e)
{
    int dims[CUBE_RANK], n = 0; /* the last is the one that is averaged over */
    const struct measure *of = k->means_of;
    for (; k->axes[n]; n++) dims[n] = axis_place_of(k->axes[n]);
    for (const struct measure_mean *m = k->means; m->of; m++) {
        PASS(add(c, m->mean, FIELD_REAL, of, n - 1, dims, m->units, m->mean_long_name, e));
        if (m->error)
            PASS(add(c, m->error, FIELD_REAL, of, n - 1, dims, m->units, m->error_long_name, e));
    }
    return OK;
}

/* Of the cell of `row`, whose elements of these variables are NaN where nothing is done. */
static void put_spread(const struct cube *c, const struct row *row, const struct cube_variable *of,
                       const struct cube_variable *replicate, struct cube_variable *mean,
                       struct cube_variable *deviation, struct cube_variable *count)
{
    struct row at = *row;
    double sum = 0, squares = 0, value = of->data.d[cube_place(c, of, row)];
    const double cell = value;
    int64_t n = 0;
    if (isnan(cell)) return;
    for (int64_t r = -1; r < c->dims[AXIS_REPLICATE].n; r++) {
        at.at[AXIS_REPLICATE] = r;
        if (r >= 0) value = replicate->data.d[cube_place(c, replicate, &at)];
        if (isnan(value)) continue;
        n++;
        sum += value - cell; /* from the cell, so that nothing cancels */
        squares += (value - cell) * (value - cell);
    }
    int64_t *done = &count->data.i[cube_place(c, count, row)];
    *done = max64(*done, n);
    if (n < 2) return;
    const double middle = sum / (double)n;
    mean->data.d[cube_place(c, mean, row)] = cell + middle;
    deviation->data.d[cube_place(c, deviation, row)] =
        sqrt(fmax(squares - (double)n * middle * middle, 0) / (double)(n - 1));
}

static void fill_spreads(struct cube *c, const struct measure *k)
{
    const struct rows *cells = &c->all.rows[measure_place_of(&measure_cell)];
    for (const struct measure_spread *s = k->spreads; s->of; s++) {
        const struct cube_variable *of = cube_find(c, s->of),
                                   *replicate = cube_find(c, s->replicate);
        struct cube_variable *mean = cube_find_in(c, "", s->mean),
                             *deviation = cube_find_in(c, "", s->deviation),
                             *count = cube_find_in(c, "", k->spread_count);
        if (!of || !replicate || !mean || !deviation || !count) continue;
        for (int64_t i = 0; i < cells->n; i++)
            put_spread(c, &cells->rows[i], of, replicate, mean, deviation, count);
    }
}

/* Sums over the axis of x or of its squares; NaN if an element is missing. */
static double sum_along(const struct cube *c, const struct cube_variable *x, struct row row,
                        int axis, bool squares)
{
    double sum = 0;
    for (row.at[axis] = 0; row.at[axis] < c->dims[axis].n; row.at[axis]++) {
        const double value = x->data.d[cube_place(c, x, &row)];
        sum += squares ? value * value : value;
    }
    return sum;
}

static void fill_means(struct cube *c, const struct measure *k)
{
    const struct rows *r = &c->all.rows[measure_place_of(k)];
    int last = 0;
    while (k->axes[last + 1]) last++;
    const int axis = axis_place_of(k->axes[last]);
    const double n = (double)c->dims[axis].n;
    for (const struct measure_mean *m = k->means; m->of; m++) {
        const struct cube_variable *of = cube_find(c, m->of);
        const struct cube_variable *of_error = m->error ? cube_find(c, m->of_error) : NULL;
        struct cube_variable *mean = cube_find_in(c, "", m->mean);
        struct cube_variable *error = m->error ? cube_find_in(c, "", m->error) : NULL;
        for (int64_t i = 0; of && mean && i < r->n; i++) {
            const struct row *row = &r->rows[i];
            if (row->at[axis] != 0) continue;
            mean->data.d[cube_place(c, mean, row)] = sum_along(c, of, *row, axis, false) / n;
            if (of_error && error)
                error->data.d[cube_place(c, error, row)] =
                    sqrt(sum_along(c, of_error, *row, axis, true)) / n;
        }
    }
}

static enum status add_derived(struct cube *c, struct err *e)
{
    for (const struct measure *const *k = recorded_measures; *k; k++)
        if ((*k)->spreads && measure_is_there(*k, &c->all.axes)) PASS(add_spreads(c, *k, e));
    for (const struct measure *const *k = recorded_measures; *k; k++)
        if ((*k)->means && measure_is_there(*k, &c->all.axes)) PASS(add_means(c, *k, e));
    struct cube_variable *x;
    const struct axis_labels *texts = &c->all.axes.labels[AXIS_DATASET];
    bool any = false;
    for (int64_t m = 0; m < c->all.axes.labels[AXIS_MODEL].n; m++)
        any = any || counts_of(c, m) != NULL;
    if (!any) return OK;
    PASS(cube_add_field(c, &tokens, "", 2, (int[]){AXIS_MODEL, AXIS_DATASET}, &x, e));
    for (int64_t m = 0; m < c->all.axes.labels[AXIS_MODEL].n; m++)
        for (int64_t d = 0; d < texts->n; d++)
            cube_put(x, m * texts->n + d, json_object_get(counts_of(c, m), texts->texts[d]));
    for (int i = 0; i < LOSSES; i++) {
        int dims[CUBE_RANK], rank = 0;
        for (; losses[i].kind->axes[rank]; rank++)
            dims[rank] = axis_place_of(losses[i].kind->axes[rank]);
        dims[rank++] = AXIS_DATASET;
        PASS(cube_add_field(c, &losses[i].field, "", rank, dims, &x, e));
        x->of = losses[i].kind;
        x->field = NULL; /* filled here, not from records */
        x->coordinates = c->coordinates;
    }
    return OK;
}

void cube_fill_derived(struct cube *c)
{
    for (const struct measure *const *k = recorded_measures; *k; k++) {
        if (!measure_is_there(*k, &c->all.axes)) continue;
        if ((*k)->spreads) fill_spreads(c, *k);
        if ((*k)->means) fill_means(c, *k);
    }
    const struct cube_variable *counts = cube_find(c, tokens.variable),
                               *bytes = cube_find(c, "baseline_bytes");
    for (int i = 0; counts && bytes && i < LOSSES; i++) {
        const struct rows *r = &c->all.rows[measure_place_of(losses[i].kind)];
        const struct cube_variable *per_byte = cube_find(c, losses[i].per_byte);
        struct cube_variable *out = cube_find_in(c, "", losses[i].field.variable);
        for (int64_t k = 0; per_byte && out && k < r->n; k++) {
            const struct row *row = &r->rows[k];
            const int64_t n = counts->data.i[cube_place(c, counts, row)],
                          b = bytes->data.i[cube_place(c, bytes, row)];
            if (n > 0 && b > 0)
                out->data.d[cube_place(c, out, row)] =
                    per_byte->data.d[cube_place(c, per_byte, row)] * M_LN2 * (double)b / (double)n;
        }
    }
}

/* --- all of it --- */

enum status cube_add_grid(struct cube *c, struct err *e)
{
    size_t i;
    json_t *column;
    PASS(add_coordinates(c, e));
    PASS(add_trajectories(c, e));
    c->coordinates = trajectory_names;
    json_array_foreach(json_object_get(c->all.axes.plan, "columns"), i, column) {
        const struct field own = {.variable = json_text(column, "name", ""),
                                  .type = json_flag(column, "number") ? FIELD_REAL : FIELD_TEXT,
                                  .long_name = "column of the trajectory table"};
        NEED(own.variable[0], ERR_FORMAT, "plan: a column without a name");
        PASS(add_of_checkpoints(c, &own, (int64_t)i, e));
        PASS(add_coordinate(c, own.variable, e));
    }
    PASS(add_grid_bits(c, e));
    PASS(add_fields(c, false, e));
    PASS(add_fields(c, true, e));
    return add_derived(c, e);
}
